import type { Executor } from '@batonsql/core'
import { statementKind } from '@batonsql/core/adapter'
import { type CompiledQuery, RawNode } from 'kysely'
import { rejectCascadingDrop } from './cascading-drop.ts'
import { withKeptStatementsHint } from './kept-statements-hint.ts'
import { mayBeReadOnly } from './query-result.ts'

/** The state of the migrations that Kysely's Migrator runs on a connection. */
export class RunningMigrations {
  /** Whether there are changes that the failure of a later statement does not undo. */
  #hasKeptChanges = false

  /** @throws TypeError if one of the queries drops a table whose rows others refer to with ON DELETE CASCADE or SET … */
  async checkDrops(queries: readonly CompiledQuery[], executor: Executor): Promise<void> {
    for (const { sql } of queries) await rejectCascadingDrop(sql, executor)
  }

  /** Called after queries have succeeded outside of a transaction. */
  onApplied(queries: readonly CompiledQuery[]): void {
    if (queries.some(mayChange)) this.#hasKeptChanges = true
  }

  /** Called after a transaction that may have changed something has been committed. */
  onCommitted(): void {
    this.#hasKeptChanges = true
  }

  /** If earlier changes are kept, says so in the error of a statement or a batch outside of a transaction. */
  withHint(error: unknown, failed: 'statement' | 'batch'): unknown {
    return this.#hasKeptChanges ? withKeptStatementsHint(error, failed) : error
  }
}

/** Of the query builders, only selects change nothing; raw SQL is judged by its text. */
function mayChange(query: CompiledQuery): boolean {
  if (!RawNode.is(query.query)) return !mayBeReadOnly(query)
  const kind = statementKind(query.sql)
  return kind !== 'read' && kind !== 'session'
}
