import type { StatementUsage } from '../protocol/worker-messages.ts'

/** Of longer texts the beginning tells which is which. */
const MAX_TEXT_CHARACTERS = 1_000

/** Counts what the statements of a database read and write, until it is asked. */
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

  /** What was counted since the last time. */
  take(): readonly StatementUsage[] {
    if (this.#statements.size === 0) return []
    const usage = [...this.#statements].map(([query, counted]) => ({ query, ...counted }))
    this.#statements.clear()
    return usage
  }
}
