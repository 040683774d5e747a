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

/** The error of a query that violated a constraint: the client's, or an ORM's that wraps it. */
export type ViolationError = Error & { readonly constraint: ConstraintViolation }

/** Whether a query failed because a value that must be unique already exists. Afterwards `error.constraint` has the columns. */
export const isUniqueViolation = (error: unknown): error is ViolationError => isViolation(error, 'unique')

/** Whether a query failed because a row references a missing row, or is still referenced. */
export const isForeignKeyViolation = (error: unknown): error is ViolationError =>
  isViolation(error, 'foreign_key')

/** Whether a query failed because a required value is null. Afterwards `error.constraint` has the columns. */
export const isNotNullViolation = (error: unknown): error is ViolationError => isViolation(error, 'not_null')

/** Whether a query failed because of a CHECK constraint. */
export const isCheckViolation = (error: unknown): error is ViolationError => isViolation(error, 'check')

function isViolation(error: unknown, kind: ConstraintViolation['kind']): error is ViolationError {
  const constraint = findViolation(error)
  if (constraint?.kind !== kind) return false
  // an ORM's error has none; not enumerable, so that it is printed as before
  if (!('constraint' in (error as Error)))
    Reflect.defineProperty(error as Error, 'constraint', { value: constraint })
  return true
}
