import { DatabaseError } from '@batonsql/core'
import { copyError, statementKind } from '@batonsql/core/adapter'
import { type CompiledQuery, RawNode } from 'kysely'
import { mayBeReadOnly } from './query-result.ts'

/** Records whether the migrations that Kysely's Migrator runs on a connection have changed something, for the errors of later ones. */
export class RunningMigrations {
  /** Whether there are changes that the failure of a later statement does not undo. */
  #hasKeptChanges = false

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
  const { sql } = query
  const kind = statementKind(sql)
  // of the usual pragmas, only these two change the file
  if (kind === 'session') return /\b(?:user_version|application_id)\b/i.test(sql)
  return kind !== 'read' && kind !== 'pragma'
}

/**
 * Adds a hint to the error of a migration: the statements before the failed statement or batch are kept. Returns other errors, such as
 * a signal's reason, unchanged.
 */
function withKeptStatementsHint(error: unknown, failed: 'statement' | 'batch'): unknown {
  if (!(error instanceof DatabaseError || error instanceof TypeError || error instanceof RangeError))
    return error
  const hint = `the statements before this ${failed === 'batch' ? 'batch' : 'one'} are kept, because the migrations run without a transaction (see \`transactionalMigrations\`): `
  // first, because the names of a constraint are read from the text after "constraint failed: "
  return copyError(error, { message: hint + error.message })
}
