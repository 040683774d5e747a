import type { Column } from 'drizzle-orm'
import { qualifiedNameOf } from './internals.ts'

// The same source serves all versions of Drizzle.

/** An integer for a column whose values are numbers. @throws RangeError when no number is exactly that, naming the column */
export function exactNumber(value: bigint, column: Column): number {
  if (isSafe(value)) return Number(value)
  throw inexact(value, column)
}

export const isSafe = (value: bigint): boolean => Number.isSafeInteger(Number(value))

export const inexact = (value: bigint | string, column: Column): RangeError =>
  new RangeError(
    `${qualifiedNameOf(column)}: ${value} is not exact as a number; declare the column with int64()`,
  )
