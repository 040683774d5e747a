import { type ConstraintViolation, DatabaseError, SqlError } from './errors.ts'

/** Returns the client's error, even if an ORM's error wraps it as its `cause`; null if there is none. */
export function findDatabaseError(error: unknown): DatabaseError | null {
  // the limit guards against circular chains
  for (let depth = 0, cause = error; depth < 10 && cause instanceof Error; depth++, cause = cause.cause)
    if (cause instanceof DatabaseError) return cause
  return null
}

/** Returns the constraint that a query violated, with its table and columns, even if an ORM wraps the error; null if none. */
export function findViolation(error: unknown): ConstraintViolation | null {
  const databaseError = findDatabaseError(error)
  return databaseError instanceof SqlError ? databaseError.constraint : null
}

/** Whether a query failed because a value that must be unique already exists. */
export const isUniqueViolation = (error: unknown): boolean => findViolation(error)?.kind === 'unique'

/** Whether a query failed because a row references a missing row, or is still referenced. */
export const isForeignKeyViolation = (error: unknown): boolean => findViolation(error)?.kind === 'foreign_key'

/** Whether a query failed because a required value is null. */
export const isNotNullViolation = (error: unknown): boolean => findViolation(error)?.kind === 'not_null'

/** Whether a query failed because of a CHECK constraint. */
export const isCheckViolation = (error: unknown): boolean => findViolation(error)?.kind === 'check'
