import type { PlatformError } from './platform-error.ts'
import { isObject, viewOf } from './view.ts'

/** An answer that went well. */
export interface Answer {
  /** Undefined for an empty body. */
  readonly body: unknown
  /** Makes the error of a body that is not the documented one. */
  readonly fail: (what: string) => PlatformError
}

/** Takes from an answer what a method returns. Nothing that is missing becomes empty: it is an error. */
export type Reader<T> = (answer: Answer) => T

export const nothing: Reader<void> = () => {}

/** An object under `key`, or the body itself; it must have the field `own`. */
export const one =
  <T>(key: string, own: string): Reader<T> =>
  ({ body, fail }) => {
    const inner = fieldOf(body, key)
    const view = viewOf<object>(isObject(inner) ? inner : isObject(body) ? body : {})
    if (!Object.hasOwn(view, own)) throw fail(`has no object "${key}" with "${own}"`)
    return view as T
  }

/** The body itself as an object. */
export const whole =
  <T>(): Reader<T> =>
  ({ body, fail }) => {
    if (!isObject(body)) throw fail('is not an object')
    return viewOf<T>(body)
  }

/** The objects of a list under `key`, or of a body that is one. @param opaque fields whose content is not converted */
export const list =
  <T>(key: string, opaque: readonly string[] = []): Reader<T[]> =>
  ({ body, fail }) => {
    const items: unknown = Array.isArray(body) ? body : fieldOf(body, key)
    if (!Array.isArray(items)) throw fail(`has no list "${key}"`)
    return items.map((item: unknown) => {
      if (!isObject(item)) throw fail(`has an item in "${key}" that is not an object`)
      return viewOf<T>(item, opaque)
    })
  }

/** A value of a type under `key`. */
const value =
  <T>(type: 'string' | 'number' | 'object') =>
  <V extends T = T>(key: string): Reader<V> =>
  ({ body, fail }) => {
    const found = fieldOf(body, key)
    if (type === 'object' ? !isObject(found) : typeof found !== type) throw fail(`has no ${type} "${key}"`)
    return found as V
  }

export const text = value<string>('string')
export const number = value<number>('number')
/** An object whose keys are data. */
export const map = value<Readonly<Record<string, unknown>>>('object')

export const fieldOf = (body: unknown, key: string): unknown =>
  isObject(body) && Object.hasOwn(body, key) ? body[key] : undefined
