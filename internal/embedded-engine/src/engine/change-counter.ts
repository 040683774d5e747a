import type { TableChanges } from '../protocol/worker-messages.ts'
import type { ChangeWatcher } from './engine-instance.ts'

/** SQLite's codes for changes to a row. */
const ACTIONS: Readonly<Record<number, 'delete' | 'insert' | 'update'>> = {
  9: 'delete',
  18: 'insert',
  23: 'update',
}

type Counts = Omit<TableChanges, 'table'>

/** Counts the rows that a transaction changes, by table. */
export class ChangeCounter implements ChangeWatcher {
  /** At each index, the changes made while that many savepoints were open. */
  readonly #levels: Map<string, Counts>[] = []
  #isCommitting = false

  onChange(action: number, table: string, savepoints: number): void {
    const counts = this.#getCounts(table, savepoints)
    counts[ACTIONS[action] ?? 'unknown'] += 1
  }

  onSavepointEnd(index: number, isUndone: boolean): void {
    const endedLevels = this.#levels.splice(index + 1)
    if (isUndone) return
    for (const level of endedLevels) {
      for (const [table, added] of level) {
        const counts = this.#getCounts(table, index)
        for (const action of Object.keys(counts) as (keyof Counts)[]) counts[action] += added[action]
      }
    }
  }

  onCommit(): void {
    this.#isCommitting = true
  }

  /** Returns the committed changes and resets the counter. @param hasCommitted false after a COMMIT that has failed */
  take(hasCommitted: boolean): readonly TableChanges[] {
    this.onSavepointEnd(0, false)
    const isCommitted = hasCommitted && this.#isCommitting
    const changes = [...(this.#levels[0] ?? [])].map(([table, counts]) => ({ table, ...counts }))
    this.#levels.length = 0
    this.#isCommitting = false
    return isCommitted ? changes : []
  }

  #getCounts(table: string, level: number): Counts {
    while (this.#levels.length <= level) this.#levels.push(new Map())
    const tables = this.#levels[level] as Map<string, Counts>
    const counts = tables.get(table) ?? { unknown: 0, delete: 0, insert: 0, update: 0 }
    tables.set(table, counts)
    return counts
  }
}
