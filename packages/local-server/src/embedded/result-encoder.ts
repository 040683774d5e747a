import { isUtf8 } from 'node:buffer'
import { floatText } from './float-text.ts'
import type { EngineValue } from './pipeline-types.ts'

/** Text in the database that is not valid UTF-8: it has no JSON form, so the whole pipeline fails. */
export class TextEncodingError extends Error {}

/** Column of a result. */
export interface ResultColumn {
  readonly name: string
  readonly decltype: string | null
}

/** One statement's result before it is written as JSON; `rows` is already JSON text. */
export interface StatementResult {
  readonly columns: readonly ResultColumn[]
  readonly rows: string
  readonly affectedRowCount: number
  readonly lastInsertRowid: bigint | null
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly durationMs: number
}

/** Writes one value as the wire's JSON. */
export function encodeValue(value: EngineValue): string {
  if (value === null) return '{"type":"null"}'
  if (typeof value === 'bigint') return `{"type":"integer","value":"${value}"}`
  if (typeof value === 'number') return `{"type":"float","value":${floatText(value)}}`
  if (typeof value === 'string') return `{"type":"text","value":${JSON.stringify(value)}}`
  return `{"type":"blob","base64":"${base64(value)}"}`
}

/** Writes a statement's result; `replicationIndex` is null inside a batch. */
export function encodeResult(result: StatementResult, replicationIndex: string | null): string {
  const columns = JSON.stringify(result.columns)
  const rowid = result.lastInsertRowid === null ? 'null' : `"${result.lastInsertRowid}"`
  const index = replicationIndex === null ? 'null' : `"${replicationIndex}"`
  return (
    `{"cols":${columns},"rows":[${result.rows}],"affected_row_count":${result.affectedRowCount},` +
    `"last_insert_rowid":${rowid},"replication_index":${index},"rows_read":${result.rowsRead},` +
    `"rows_written":${result.rowsWritten},"query_duration_ms":${result.durationMs}}`
  )
}

/** Reads bytes that SQLite says are text. */
export function decodeText(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  if (text.includes('\ufffd') && !isUtf8(bytes)) throw new TextEncodingError(describeBadUtf8(bytes))
  return text
}

function describeBadUtf8(bytes: Buffer): string {
  let valid = 0
  for (let end = bytes.length; end > valid; ) {
    const middle = (valid + end + 1) >> 1
    if (isUtf8Prefix(bytes, middle)) valid = middle
    else end = middle - 1
  }
  while (valid > 0 && !isUtf8(bytes.subarray(0, valid))) valid -= 1
  return `invalid utf-8 sequence of 1 bytes from index ${valid}`
}

/** Whether the first bytes are valid, except perhaps for a character cut off at the end. */
function isUtf8Prefix(bytes: Buffer, length: number): boolean {
  for (let cut = 0; cut < 4 && cut <= length; cut += 1)
    if (isUtf8(bytes.subarray(0, length - cut))) return true
  return false
}

function base64(bytes: Uint8Array): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  return text.endsWith('==') ? text.slice(0, -2) : text.endsWith('=') ? text.slice(0, -1) : text
}
