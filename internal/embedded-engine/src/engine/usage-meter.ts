import type { QueryUsage } from '@batonsql/server-common/backend'

/** Statements are counted together if they begin with the same text of this length. */
const MAX_TEXT_CHARACTERS = 1_000

/** Counts the rows that the successful statements of a database read and write. */
export class UsageMeter {
  readonly #statements = new Map<string, { rowsRead: number; rowsWritten: number }>()

  add(sql: string, rowsRead: number, rowsWritten: number): void {
    if (rowsRead === 0 && rowsWritten === 0) return
    const query = sql.slice(0, MAX_TEXT_CHARACTERS)
    const counts = this.#statements.get(query)
    if (counts === undefined) this.#statements.set(query, { rowsRead, rowsWritten })
    else {
      counts.rowsRead += rowsRead
      counts.rowsWritten += rowsWritten
    }
  }

  /** Returns the counts since the last call. */
  take(): readonly QueryUsage[] {
    if (this.#statements.size === 0) return []
    const usage = [...this.#statements].map(([query, counts]) => ({ query, ...counts }))
    this.#statements.clear()
    return usage
  }
}
