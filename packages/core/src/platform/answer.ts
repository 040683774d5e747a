import type { DecodeError } from './platform-errors.ts'
import { isObject, viewOf } from './view.ts'

/** The body of an answer that went well, and what may be read from it. Nothing that is missing becomes empty. */
export class Answer {
  /** Undefined for an empty body. */
  readonly body: unknown
  readonly #fail: (what: string) => DecodeError

  constructor(body: unknown, fail: (what: string) => DecodeError) {
    this.body = body
    this.#fail = fail
  }

  /**
   * An object under `key`, or the body itself; it must have the field `own`.
   * @param opaque fields whose content is not converted @throws DecodeError
   */
  object<T>(key: string, own: string, opaque: readonly string[] = []): T {
    const { body } = this
    const inner = this.#field(key)
    const found = isObject(inner) ? inner : body
    if (isObject(found)) {
      const view = viewOf<T>(found, opaque)
      if (Object.hasOwn(view as object, own)) return view
    }
    throw this.#fail(`has no object "${key}" with "${own}"`)
  }

  /** The body itself as an object. @throws DecodeError */
  whole<T>(): T {
    if (!isObject(this.body)) throw this.#fail('is not an object')
    return viewOf<T>(this.body)
  }

  /** The objects of a list under `key`, or of a body that is one. @throws DecodeError */
  list<T>(key: string, opaque: readonly string[] = []): T[] {
    const items = Array.isArray(this.body) ? (this.body as unknown[]) : this.#field(key)
    if (!Array.isArray(items)) throw this.#fail(`has no list "${key}"`)
    return items.map((item: unknown) => {
      if (!isObject(item)) throw this.#fail(`has an item in "${key}" that is not an object`)
      return viewOf<T>(item, opaque)
    })
  }

  /** A list that is null when there is nothing to tell. @throws DecodeError */
  listOrNull<T>(key: string): T[] | null {
    return this.#field(key) === null ? null : this.list<T>(key)
  }

  /** @throws DecodeError */
  text(key: string): string {
    const value = this.#field(key)
    if (typeof value !== 'string') throw this.#fail(`has no text "${key}"`)
    return value
  }

  /** @throws DecodeError */
  number(key: string): number {
    const value = this.#field(key)
    if (typeof value !== 'number') throw this.#fail(`has no number "${key}"`)
    return value
  }

  /** An object whose keys are data. @throws DecodeError */
  map<T>(key: string): Readonly<Record<string, T>> {
    const value = this.#field(key)
    if (!isObject(value)) throw this.#fail(`has no object "${key}"`)
    return value as Readonly<Record<string, T>>
  }

  /** A field that need not be there. */
  optional(key: string): unknown {
    return this.#field(key)
  }

  #field(key: string): unknown {
    return isObject(this.body) && Object.hasOwn(this.body, key) ? this.body[key] : undefined
  }
}
