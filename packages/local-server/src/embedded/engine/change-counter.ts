import type { TableChanges } from '../protocol/worker-messages.ts'
import type { ChangeWatcher } from './engine-instance.ts'

/** SQLite's codes of changes of a row. */
const ACTIONS: Readonly<Record<number, 'delete' | 'insert' | 'update'>> = {
  9: 'delete',
  18: 'insert',
  23: 'update',
}

/** Counts the rows that a transaction changes, by table. */
export class ChangeCounter implements ChangeWatcher {
  readonly #tables = new Map<string, Omit<TableChanges, 'table'>>()
  #isCommitting = false

  changed(action: number, table: string): void {
    let counts = this.#tables.get(table)
    if (counts === undefined) {
      counts = { unknown: 0, delete: 0, insert: 0, update: 0 }
      this.#tables.set(table, counts)
    }
    counts[ACTIONS[action] ?? 'unknown'] += 1
  }

  committing(): void {
    this.#isCommitting = true
  }

  /** Returns the committed changes and resets the counter. Called when no transaction is open. */
  take(hasCommitted: boolean): readonly TableChanges[] {
    const isCommitted = hasCommitted && this.#isCommitting
    const changes = isCommitted ? [...this.#tables].map(([table, counts]) => ({ table, ...counts })) : []
    this.#tables.clear()
    this.#isCommitting = false
    return changes
  }
}
