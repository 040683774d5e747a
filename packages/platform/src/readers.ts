import type { PlatformError } from './platform-error.ts'
import { isObject, toView } from './view.ts'

/** A successful response. */
export interface ParsedResponse {
  /** Undefined if the body is empty. */
  readonly body: unknown
  /** Creates the error for an undocumented body. */
  readonly fail: (problem: string) => PlatformError
}

/** Extracts the result of a method from a response. Missing data is an error, never an empty result. */
export type Reader<T> = (response: ParsedResponse) => T

export const noResult: Reader<void> = () => {}

/** Reads an object under `key`, or the body itself; it must have `requiredField`. */
export const object =
  <T>(key: string, requiredField: string): Reader<T> =>
  ({ body, fail }) => {
    const inner = getField(body, key)
    const view = toView<object>(isObject(inner) ? inner : isObject(body) ? body : {})
    if (!Object.hasOwn(view, requiredField)) throw fail(`has no object "${key}" with "${requiredField}"`)
    return view as T
  }

/** Reads the body as an object. */
export const bodyObject =
  <T>(): Reader<T> =>
  ({ body, fail }) => {
    if (!isObject(body)) throw fail('is not an object')
    return toView<T>(body)
  }

/** Reads the objects of a list under `key`, or of a body that is a list. @param opaque fields whose content is not converted */
export const list =
  <T>(key: string, opaque: readonly string[] = []): Reader<T[]> =>
  ({ body, fail }) => {
    const items: unknown = Array.isArray(body) ? body : getField(body, key)
    if (!Array.isArray(items)) throw fail(`has no list "${key}"`)
    return items.map((item: unknown) => {
      if (!isObject(item)) throw fail(`has an item in "${key}" that is not an object`)
      return toView<T>(item, opaque)
    })
  }

/** Reads a value of a type under `key`. */
const value =
  <T>(type: 'string' | 'number' | 'object') =>
  <V extends T = T>(key: string): Reader<V> =>
  ({ body, fail }) => {
    const field = getField(body, key)
    if (type === 'object' ? !isObject(field) : typeof field !== type) throw fail(`has no ${type} "${key}"`)
    return field as V
  }

export const text = value<string>('string')
export const number = value<number>('number')
/** Reads an object whose keys are data. */
export const map = value<Readonly<Record<string, unknown>>>('object')

export const getField = (body: unknown, key: string): unknown =>
  isObject(body) && Object.hasOwn(body, key) ? body[key] : undefined
