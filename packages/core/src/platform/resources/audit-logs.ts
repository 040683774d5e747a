import { checkOptions } from '../../base/check-options.ts'
import type { AuditLog } from '../models.ts'
import { type Page, Pages } from '../pages.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { PAGED, type PlatformHttp } from '../platform-http.ts'
import { path } from '../platform-path.ts'

/** What was done in the organization. */
export class AuditLogs {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  /**
   * Entries, newest first, in pages by number: one that comes meanwhile moves the others, so that the last of a page may be
   * the first of the next, too. @param options `pageSize`: how many at a time, by default 100
   */
  list(options: PlatformCallOptions & { readonly pageSize?: number | undefined } = {}): Pages<AuditLog> {
    checkOptions(options, PAGED)
    const { pageSize = 100, ...callOptions } = options
    const http = this.#http
    return new Pages((at) => {
      const page = at === null ? 1 : Number(at)
      return http.call<Page<AuditLog>>(
        {
          method: 'GET',
          path: path`/v1/organizations/${http.organization}/audit-logs`,
          query: { page, page_size: pageSize },
        },
        callOptions,
        (answer) => {
          const { total_pages: pages = 1 } = (answer.optional('pagination') ?? {}) as { total_pages?: number }
          const items = answer.list<AuditLog>('audit_logs', ['data'])
          return { items, next: items.length > 0 && page < pages ? String(page + 1) : null }
        },
      )
    })
  }
}
