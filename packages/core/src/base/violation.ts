import { type ConstraintViolation, DatabaseError, SqlError } from './errors.ts'

/** Finds the client's own error behind that of an ORM, which may wrap it as `cause`; null when there is none. */
export function findDatabaseError(error: unknown): DatabaseError | null {
  // chains are short; the bound is for those that bite their tail
  for (let at = 0, each = error; at < 10 && each instanceof Error; at++, each = each.cause)
    if (each instanceof DatabaseError) return each
  return null
}

/** Which constraint a query has violated, with its table and columns, through the error of an ORM, too; null when none. */
export function findViolation(error: unknown): ConstraintViolation | null {
  const found = findDatabaseError(error)
  return found instanceof SqlError ? found.constraint : null
}

/** Whether a query failed because a value that must be unique is there already. */
export const isUniqueViolation = (error: unknown): boolean => findViolation(error)?.kind === 'unique'

/** Whether a query failed because a row refers to nothing, or is referred to. */
export const isForeignKeyViolation = (error: unknown): boolean => findViolation(error)?.kind === 'foreign_key'

/** Whether a query failed because a value that must be there is null. */
export const isNotNullViolation = (error: unknown): boolean => findViolation(error)?.kind === 'not_null'

/** Whether a query failed because of a CHECK constraint. */
export const isCheckViolation = (error: unknown): boolean => findViolation(error)?.kind === 'check'
