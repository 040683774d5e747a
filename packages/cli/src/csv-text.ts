import type { Value } from '@batonsql/core'
import { csvText, realText } from '@batonsql/inspector/csv-text'

/**
 * Formats a row as a line of CSV, with a line feed. NULL is an empty cell, and an empty text is `""`. Blobs are written as `x'00ff'`.
 */
export const formatCsvRow = (cells: readonly Value[]): string => `${cells.map(formatCsvCell).join(',')}\n`

function formatCsvCell(value: Value): string {
  if (value === null) return ''
  if (typeof value === 'number') return realText(value)
  if (typeof value === 'bigint') return String(value)
  return value instanceof Uint8Array ? `x'${Buffer.from(value).toString('hex')}'` : csvText(value)
}
