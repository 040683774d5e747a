import { randomUUID } from 'node:crypto'
import type { StatementUsage } from '@batonsql/embedded-engine'
import type { DatabaseId, QueryUsage } from '@batonsql/server-common/backend'

/** Maximum number of distinct queries counted per database. When it is exceeded, only the half with the most usage is kept. */
const MAX_QUERIES = 200
/** Number of queries that are shown. */
const MAX_TOP_QUERIES = 20

interface Count {
  rowsRead: number
  rowsWritten: number
  readonly queries: Map<string, QueryUsage>
}

/** Counts the usage of each database since the server started. */
export class UsageCounters {
  /** Distinguishes the counts since this start from earlier ones. */
  readonly epoch = randomUUID()
  readonly #counts = new Map<DatabaseId, Count>()

  add(id: DatabaseId, usage: readonly StatementUsage[]): void {
    const count = this.#counts.get(id) ?? { rowsRead: 0, rowsWritten: 0, queries: new Map() }
    this.#counts.set(id, count)
    for (const { query, rowsRead, rowsWritten } of usage) {
      count.rowsRead += rowsRead
      count.rowsWritten += rowsWritten
      const previous = count.queries.get(query)
      count.queries.set(query, {
        query,
        rowsRead: rowsRead + (previous?.rowsRead ?? 0),
        rowsWritten: rowsWritten + (previous?.rowsWritten ?? 0),
      })
    }
    if (count.queries.size > MAX_QUERIES) {
      for (const { query } of sortByUsage(count).slice(MAX_QUERIES / 2)) count.queries.delete(query)
    }
  }

  getTotals(id: DatabaseId): { readonly rowsRead: number; readonly rowsWritten: number } {
    const { rowsRead = 0, rowsWritten = 0 } = this.#counts.get(id) ?? {}
    return { rowsRead, rowsWritten }
  }

  /** Returns the queries with the highest usage, highest first. */
  getTopQueries(id: DatabaseId): readonly QueryUsage[] {
    const count = this.#counts.get(id)
    return count === undefined ? [] : sortByUsage(count).slice(0, MAX_TOP_QUERIES)
  }

  forget(id: DatabaseId): void {
    this.#counts.delete(id)
  }
}

function sortByUsage({ queries }: Count): readonly QueryUsage[] {
  const sumRows = ({ rowsRead, rowsWritten }: QueryUsage): number => rowsRead + rowsWritten
  return [...queries.values()].sort((a, b) => sumRows(b) - sumRows(a))
}
