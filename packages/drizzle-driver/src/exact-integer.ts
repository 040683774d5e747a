import type { Column } from 'drizzle-orm'
import { qualifiedName } from './internals.ts'

// Shared by all Drizzle versions.

/** Converts an integer for a column of numbers. @throws RangeError naming the column, if it is not exact as a number */
export function exactNumber(value: bigint, column: Column): number {
  if (isSafe(value)) return Number(value)
  throw inexactError(value, column)
}

export const isSafe = (value: bigint): boolean => Number.isSafeInteger(Number(value))

export const inexactError = (value: bigint | string, column: Column): RangeError =>
  new RangeError(
    `${qualifiedName(column)}: ${value} is not exact as a number; declare the column with int64()`,
  )
