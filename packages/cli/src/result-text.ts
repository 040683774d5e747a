import { styleText } from 'node:util'
import type { ArrayRow, ResultSet, Value } from '@batonsql/core'
import { csvText, realText } from '@batonsql/inspector/csv-text'
import { escapeControls } from './escape-controls.ts'

/** Formats a result as a table: numbers aligned to the right, NULL and blobs as SQL literals. Empty for a result without columns. */
export function formatTable(
  { columns, rows }: Pick<ResultSet<ArrayRow>, 'columns' | 'rows'>,
  output: NodeJS.WritableStream,
  showsHeaders: boolean,
): string {
  if (columns.length === 0) return ''
  const style = (format: 'bold' | 'dim', text: string): string => styleText(format, text, { stream: output })
  const headers = columns.map(escapeControls)
  const cells = rows.map((row) => row.map(cellText))
  const widths = headers.map((header, index) =>
    cells.reduce((width, row) => Math.max(width, displayWidth(row[index] as string)), displayWidth(header)),
  )
  const isNumeric = headers.map(
    (_, index) =>
      rows.length > 0 && rows.every((row) => row[index] === null || isNumber(row[index] as Value)),
  )
  const pad = (text: string, column: number, styled: string): string => {
    const blank = ' '.repeat((widths[column] as number) - displayWidth(text))
    if (isNumeric[column]) return blank + styled
    return column === columns.length - 1 ? styled : styled + blank
  }
  const headerLines = [
    headers.map((header, index) => pad(header, index, style('bold', header))).join('  '),
    widths.map((width) => '-'.repeat(width)).join('  '),
  ]
  const lines = [
    ...(showsHeaders ? headerLines : []),
    ...cells.map((row, y) =>
      row
        .map((text, index) => pad(text, index, rows[y]?.[index] === null ? style('dim', text) : text))
        .join('  ')
        .trimEnd(),
    ),
  ]
  return lines.map((line) => `${line}\n`).join('')
}

/** Formats a result with a line for each value, and an empty line between rows. Empty for a result without rows. */
export function formatLines({ columns, rows }: Pick<ResultSet<ArrayRow>, 'columns' | 'rows'>): string {
  const headers = columns.map(escapeControls)
  const width = Math.max(0, ...headers.map(displayWidth))
  const formatLine = (value: Value, column: number): string => {
    const header = headers[column] as string
    return `${' '.repeat(width - displayWidth(header))}${header} = ${cellText(value)}\n`
  }
  return rows.map((row) => row.map(formatLine).join('')).join('\n')
}

/**
 * Formats a row as a line of JSON. Integers beyond 2^53 become text, and blobs `{"base64": …}`. Infinities become the text NaN, because
 * servers do not send their sign. If several columns have the same name, the last one wins. Names that are integers come first, as in
 * any JavaScript object.
 */
export function formatJson(cells: readonly Value[], columns: readonly string[]): string {
  const row = Object.fromEntries(columns.map((name, index) => [name, cells[index]]))
  const replacer = (_: string, value: unknown): unknown => {
    if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
    // JSON would make it null
    if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
    return value instanceof Uint8Array ? { base64: Buffer.from(value).toString('base64') } : value
  }
  return `${JSON.stringify(row, replacer)}\n`
}

/** Formats a row as a line of CSV. NULL is an empty cell, and an empty text is `""`. Blobs are written as `x'00ff'`. */
export const formatCsvRow = (cells: readonly Value[]): string => `${cells.map(csvCell).join(',')}\n`

function csvCell(value: Value): string {
  if (value === null) return ''
  return typeof value === 'string' ? csvText(value) : cellText(value)
}

export const formatMarkdownRow = (cells: readonly Value[]): string =>
  `| ${cells.map((cell) => cellText(cell).replaceAll(/[\\|]/g, '\\$&')).join(' | ')} |\n`

const isNumber = (value: Value): boolean => typeof value === 'number' || typeof value === 'bigint'

/** Formats a value as SQL, except text. A REAL has a decimal point or an exponent, so that it differs from an integer. */
function cellText(value: Value): string {
  if (value === null) return 'NULL'
  if (typeof value === 'number') return realText(value)
  if (typeof value === 'string') return escapeControls(value)
  return value instanceof Uint8Array ? `x'${Buffer.from(value).toString('hex')}'` : String(value)
}

const segmenter = new Intl.Segmenter()
const WIDE_CHARACTER =
  /\p{Emoji_Presentation}|\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|[\uff01-\uff60\u3000-\u303e]/u

/** Returns the approximate number of columns that a string takes up in a terminal: East Asian characters and emoji take two. */
function displayWidth(text: string): number {
  // oxlint-disable-next-line no-control-regex -- fast path for ASCII
  if (/^[\u0000-\u007f]*$/.test(text)) return text.length
  let width = 0
  for (const { segment } of segmenter.segment(text)) width += WIDE_CHARACTER.test(segment) ? 2 : 1
  return width
}
