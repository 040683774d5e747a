import { checkOptions, NON_NEGATIVE_INTEGER } from '@batonsql/options'
import type { PlatformCall } from './platform-call.ts'

/** A page of a list. */
export interface Page<T> {
  readonly items: T[]
  /** Position of the next page, for `page(next)`. Null after the last page. */
  readonly next: string | null
}

/**
 * A paginated list. Nothing is requested until it is read:
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

  /** Fetches a page. @param at `next` of the previous page; the first page if omitted */
  page(at: string | null = null): PlatformCall<Page<T>> {
    return this.#get(at)
  }

  /** Yields all pages, each fetched when it is needed. @throws RangeError if the service returns the same position twice */
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

  /** Fetches all items, or the first `limit` items. @param options `limit`: maximum number of items */
  async toArray(options: { readonly limit?: number | undefined } = {}): Promise<T[]> {
    checkOptions(options, { limit: NON_NEGATIVE_INTEGER })
    const { limit = Infinity } = options
    const items: T[] = []
    if (limit === 0) return items
    for await (const item of this) {
      items.push(item)
      if (items.length >= limit) break
    }
    return items
  }
}
