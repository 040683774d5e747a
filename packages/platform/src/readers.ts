import type { PlatformError } from './platform-error.ts'
import { isObject, toView } from './view.ts'

export interface ParsedResponse {
  /** Undefined if the body is empty. */
  readonly body: unknown
  /** Creates the error for an undocumented body. */
  readonly fail: (problem: string) => PlatformError
}

/** Extracts the result of a method from a response. Missing data is an error, never an empty result. */
export type Reader<T> = (response: ParsedResponse) => T

export const noResult: Reader<void> = () => {}

/** Reads the object under `key`, or else the body itself, as a view that has `requiredField`. */
export const object =
  <T>(key: string, requiredField: string): Reader<T> =>
  ({ body, fail }) => {
    const inner = getField(body, key)
    const found = isObject(inner) ? inner : body
    const view = isObject(found) ? toView<object>(found) : {}
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

/** Creates a function like `text`, for one type. */
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
/** Reads an object under `key` whose own keys are data, which are not converted. */
export const map = value<Readonly<Record<string, unknown>>>('object')

/** Returns an own field of an object; undefined if there is none, or `body` is no object. */
export const getField = (body: unknown, key: string): unknown =>
  isObject(body) && Object.hasOwn(body, key) ? body[key] : undefined
