import type { StatementUsage } from '../protocol/worker-messages.ts'

/** Longer statements are identified by their beginning. */
const MAX_TEXT_CHARACTERS = 1_000

/** Counts the rows that the statements of a database read and write. */
export class UsageMeter {
  readonly #statements = new Map<string, { rowsRead: number; rowsWritten: number }>()

  add(sql: string, rowsRead: number, rowsWritten: number): void {
    if (rowsRead === 0 && rowsWritten === 0) return
    const query = sql.slice(0, MAX_TEXT_CHARACTERS)
    const counted = this.#statements.get(query)
    if (counted === undefined) this.#statements.set(query, { rowsRead, rowsWritten })
    else {
      counted.rowsRead += rowsRead
      counted.rowsWritten += rowsWritten
    }
  }

  /** Returns the counts since the last call. */
  take(): readonly StatementUsage[] {
    if (this.#statements.size === 0) return []
    const usage = [...this.#statements].map(([query, counted]) => ({ query, ...counted }))
    this.#statements.clear()
    return usage
  }
}
