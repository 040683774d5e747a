import type { PlatformCall } from './platform-call.ts'

/** One page of a list. */
export interface Page<T> {
  readonly items: T[]
  /** Where the next page begins: for `page(next)`. Null after the last one. */
  readonly next: string | null
}

/**
 * A list that comes in pages. Nothing is asked before it is read:
 *
 * ```ts
 * for await (const { name } of platform.databases.list()) …
 * const first = await platform.databases.list().toArray({ limit: 20 })
 * ```
 */
export class Pages<T> implements AsyncIterable<T> {
  readonly #get: (at: string | null) => PlatformCall<Page<T>>

  constructor(get: (at: string | null) => PlatformCall<Page<T>>) {
    this.#get = get
  }

  /** One page. @param at `next` of the page before it; without it the first */
  page(at: string | null = null): PlatformCall<Page<T>> {
    return this.#get(at)
  }

  /** Every page, one after the other, each asked for when it is needed. */
  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    const seen = new Set<string>()
    for (let at: string | null = null; ; ) {
      const page: Page<T> = await this.#get(at)
      yield page
      at = page.next
      if (at === null) return
      if (seen.has(at)) throw new RangeError(`the list does not end: its page "${at}" leads to itself`)
      seen.add(at)
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) yield* page.items
  }

  /** All of it, or the first of it. @param options `limit`: how many at most */
  async toArray({ limit = Infinity }: { readonly limit?: number | undefined } = {}): Promise<T[]> {
    if (!(limit >= 0)) throw new TypeError('limit must be a number from 0 up')
    const items: T[] = []
    if (limit === 0) return items
    for await (const item of this) {
      items.push(item)
      if (items.length >= limit) break
    }
    return items
  }
}
