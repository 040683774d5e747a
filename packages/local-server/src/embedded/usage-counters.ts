import { randomUUID } from 'node:crypto'
import type { DatabaseId, QueryUsage } from '@batonsql/server-common/backend'

/**
 * Maximum number of distinct queries counted per database. When it is exceeded, only the half with the most usage is kept; the counts
 * of the others begin at zero again.
 */
const MAX_QUERIES = 200
const MAX_TOP_QUERIES = 20

/** Usage of a database since the server started; `queries` by their SQL. */
interface DatabaseUsage {
  rowsRead: number
  rowsWritten: number
  readonly queries: Map<string, QueryUsage>
}

/** Counts the usage of each database since the server started. */
export class UsageCounters {
  /** Distinguishes the counts since this start from earlier ones. */
  readonly epoch = randomUUID()
  readonly #usages = new Map<DatabaseId, DatabaseUsage>()

  add(id: DatabaseId, usage: readonly QueryUsage[]): void {
    const total = this.#usages.get(id) ?? { rowsRead: 0, rowsWritten: 0, queries: new Map() }
    this.#usages.set(id, total)
    for (const { query, rowsRead, rowsWritten } of usage) {
      total.rowsRead += rowsRead
      total.rowsWritten += rowsWritten
      const previous = total.queries.get(query)
      total.queries.set(query, {
        query,
        rowsRead: rowsRead + (previous?.rowsRead ?? 0),
        rowsWritten: rowsWritten + (previous?.rowsWritten ?? 0),
      })
    }
    if (total.queries.size > MAX_QUERIES) {
      for (const { query } of sortByUsage(total).slice(MAX_QUERIES / 2)) total.queries.delete(query)
    }
  }

  getTotals(id: DatabaseId): { readonly rowsRead: number; readonly rowsWritten: number } {
    const { rowsRead = 0, rowsWritten = 0 } = this.#usages.get(id) ?? {}
    return { rowsRead, rowsWritten }
  }

  /** Returns the queries with the highest usage, highest first. */
  getTopQueries(id: DatabaseId): readonly QueryUsage[] {
    const usage = this.#usages.get(id)
    return usage === undefined ? [] : sortByUsage(usage).slice(0, MAX_TOP_QUERIES)
  }

  forget(id: DatabaseId): void {
    this.#usages.delete(id)
  }
}

function sortByUsage({ queries }: DatabaseUsage): readonly QueryUsage[] {
  const sumRows = ({ rowsRead, rowsWritten }: QueryUsage): number => rowsRead + rowsWritten
  return [...queries.values()].sort((a, b) => sumRows(b) - sumRows(a))
}
