import { type BatchStep, ResultError, type StatementRequest } from '@batonsql/server-common/hrana'
import { getKeyword, type Statement } from '@batonsql/server-common/sql'

/** A migration of a schema database and its children. */
export type Migration = readonly BatchStep[]

/** A statement of a program that will become a migration. */
export interface ProgramStep extends Pick<BatchStep, 'condition'> {
  readonly statement: Statement
  readonly request: StatementRequest
}

const INVALID_MESSAGE =
  'migration is invalid: it contains transaction items (BEGIN, COMMIT, SAVEPOINT...) which are not allowed. The migration is already run within a transaction'

/**
 * Converts a program to a migration, which runs in a transaction. A BEGIN at its start, and each COMMIT and ROLLBACK at its end, are
 * replaced by queries: clients send a ROLLBACK for the case that the COMMIT fails. As in libsql-server, a program that only ends with
 * ROLLBACK is applied. Other statements that begin or end transactions are rejected.
 * @throws MigrationError
 */
export function toMigration(steps: readonly ProgramStep[]): Migration {
  const begin = steps.findIndex(({ statement }) => statement.kind !== 'pragma')
  const hasBegin = steps[begin]?.statement.kind === 'begin'
  // pragmas may follow the end of the transaction
  const last = steps.findLastIndex(({ statement }) => statement.kind !== 'pragma')
  const lastOther = steps.slice(0, last + 1).findLastIndex(({ statement }) => !endsTransaction(statement))
  return steps.map(({ statement, request: { args, namedArgs }, condition }, index) => {
    const toStep = (sql: string): BatchStep => ({
      statement: { sql, sqlId: null, args, namedArgs },
      condition,
    })
    if (hasBegin && index === begin) return toStep("SELECT 'neutralized txn begin'")
    const isEnd = endsTransaction(statement)
    if (isEnd && hasBegin && index > lastOther) return toStep("SELECT 'neutralized txn component'")
    if (isEnd || statement.kind === 'begin') throw new MigrationError(INVALID_MESSAGE)
    return toStep(statement.source)
  })
}

/** Whether a statement ends the transaction; SAVEPOINT, RELEASE and ROLLBACK TO are allowed in a migration. */
const endsTransaction = ({ verb, tokens, sql }: Statement): boolean =>
  ['COMMIT', 'END'].includes(verb) ||
  (verb === 'ROLLBACK' && !tokens.some((token) => getKeyword(sql, token) === 'TO'))

/** A migration that cannot be executed, or has failed and was rolled back. */
export class MigrationError extends Error {
  /** Creates the error of a failed step, numbered from 0. */
  static fromStep(index: number, { message }: ResultError, sql: string): MigrationError {
    const plain = message.replace(/^(?:SQLite error|SQL input error): /, '')
    const position = / \(at offset (\d+)\)$/.exec(plain)
    const reason =
      position === null ? plain : `${plain.slice(0, position.index)} in ${sql} at offset ${position[1]}`
    return new MigrationError(`An error occured executing the migration at step ${index + 1}: ${reason}`)
  }

  /** Converts the error to the error of a batch or of a single statement. */
  toResult(isBatch: boolean): ResultError {
    return isBatch
      ? new ResultError('SCHEMA_MIGRATION_ERROR', `Schema migration error: ${this.message}`)
      : new ResultError('SQLITE_UNKNOWN', `SQLite error: ${this.message}`)
  }
}
