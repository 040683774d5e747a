import type { Value } from '@batonsql/core'
import { realText } from './real-text.ts'

/**
 * Whether a text is written exactly as a stored number is: an integer of 64 bits, or the shortest text of a REAL. SQLite stores -0.0
 * as 0.0.
 */
export function isNumberText(text: string): boolean {
  if (/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return BigInt.asIntN(64, BigInt(text)) === BigInt(text)
  return /^-?\d/.test(text) && text !== '-0.0' && realText(Number(text)) === text
}

/**
 * Formats a row as a line of CSV (RFC 4180), with a line feed. NULL is an empty cell, and an empty text is `""`. A text that looks
 * like a number is quoted, so that `baton import` keeps it a text. Blobs are written as `x'00ff'`.
 */
export const formatCsvRow = (cells: readonly Value[]): string => `${cells.map(formatCsvCell).join(',')}\n`

function formatCsvCell(value: Value): string {
  if (value === null) return ''
  if (typeof value === 'number') return realText(value)
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Uint8Array) return `x'${Buffer.from(value).toString('hex')}'`
  const needsQuotes = value === '' || /[",\r\n\ufeff]/.test(value) || isNumberText(value)
  return needsQuotes ? `"${value.replaceAll('"', '""')}"` : value
}
