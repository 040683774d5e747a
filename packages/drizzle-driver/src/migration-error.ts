/** Thrown when a migration fails. In a transaction (the default) no pending migration was applied. */
export class MigrationError extends Error {
  override readonly name = 'MigrationError'
  /** Tag of the migration; null if the error concerns all of them. */
  readonly migration: string | null
  /** Position of the statement in the migration, from 0. */
  readonly statementIndex: number | null
  readonly sql: string | null

  constructor(
    message: string,
    { migration = null, statementIndex = null, sql = null, cause }: FailedStatement,
  ) {
    super(message, { cause })
    this.migration = migration
    this.statementIndex = statementIndex
    this.sql = sql
  }
}

/** The statement of a migration that failed, as far as it is known. */
export interface FailedStatement {
  readonly migration?: string | null
  readonly statementIndex?: number | null
  readonly sql?: string | null
  readonly cause?: unknown
}
