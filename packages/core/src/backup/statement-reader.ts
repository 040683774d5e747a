import { describeType } from '@batonsql/options'
import { ProtocolError } from '../base/errors.ts'
import { findStatementEnd, type ScriptStatement, scanStatements } from '../sql/script.ts'
import { FILE_START } from './export-file.ts'
import { LIBSQL_VIRTUAL_TABLE } from './virtual-table.ts'

/** Chunks of a script: text or UTF-8, split anywhere. */
export type ScriptSource =
  | string
  | Iterable<string | Uint8Array>
  | AsyncIterable<string | Uint8Array>
  | ReadableStream<Uint8Array>

/**
 * Splits a script that arrives in chunks into statements, by SQLite's rules. Buffers at most a chunk and twice the longest statement:
 * after a long statement, the next ones may be yielded later than they arrive. Lines and columns are counted within the buffer.
 * @throws ProtocolError if it ends in the middle of a statement, or is not UTF-8; TypeError if it is not a source
 */
export async function* readStatements(
  source: ScriptSource,
): AsyncGenerator<ScriptStatement, void, undefined> {
  for await (const statements of readStatementGroups(source)) yield* statements
}

/** Like `readStatements`, with the statements that are complete after each chunk. */
export async function* readStatementGroups(
  source: ScriptSource,
): AsyncGenerator<readonly ScriptStatement[], void, undefined> {
  // invalid UTF-8 must not be replaced
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let text = ''
  /** Length at which the buffer is scanned again; otherwise a long statement would be scanned again with each chunk. */
  let scanLength = 0
  let isFirst = true
  for await (const piece of toPieces(source)) {
    if (isFirst && isFile(piece))
      throw new ProtocolError(
        'the source is an SQLite file, not SQL: use the output of dump(), or of .dump in sqlite3',
      )
    isFirst = false
    // a Uint8Array as the source is iterated as numbers
    const isBytes = ArrayBuffer.isView(piece) || (piece as unknown) instanceof ArrayBuffer
    if (typeof piece !== 'string' && !isBytes) throw sourceError(piece)
    text += typeof piece === 'string' ? piece : decode(decoder, piece)
    if (text.length < scanLength) continue
    const { statements, end } = completeStatements(text)
    text = text.slice(end)
    scanLength = text.length * 2
    yield statements
  }
  // the last line may have no line feed, which `findDumpEnd` looks for
  text += `${decode(decoder)}\n`
  const { statements, end } = completeStatements(text)
  yield statements
  if (!isBlank(text.slice(end))) throw new ProtocolError('the script ends in the middle of a statement')
}

/**
 * Returns the position of the semicolon that ends a statement. In that for a virtual table, libsql-server does not double the quotes: it
 * ends with the first `');` before a blank or a word.
 */
function findDumpEnd(text: string, start: number): number {
  if (!text.startsWith(LIBSQL_VIRTUAL_TABLE, start)) return findStatementEnd(text, start)
  const end = /'\);(?=[\s\w])/g
  end.lastIndex = start
  const match = end.exec(text)
  if (match === null) throw new SyntaxError('the definition of a virtual table is incomplete')
  return match.index + 2
}

/** Returns the statements that end with a semicolon, and the end of the last one. */
function completeStatements(text: string): {
  readonly statements: readonly ScriptStatement[]
  readonly end: number
} {
  const statements: ScriptStatement[] = []
  let end = 0
  try {
    for (const { statement, end: statementEnd } of scanStatements(text, findDumpEnd)) {
      if (text[statementEnd - 1] !== ';') break
      end = statementEnd
      statements.push(statement)
    }
  } catch (error) {
    // a quote, a comment or a trigger that continues in the next chunk
    if (!(error instanceof SyntaxError)) throw error
  }
  return { statements, end }
}

const sourceError = (value: unknown): TypeError =>
  new TypeError(`expected text, a stream, or chunks such as [bytes], not ${describeType(value)}`)

const isFile = (piece: unknown): boolean =>
  piece instanceof Uint8Array &&
  new TextDecoder('latin1').decode(piece.subarray(0, FILE_START.length)) === FILE_START

/** @param piece absent at the end */
// without the DOM's types, `TextDecoder` is only a value
function decode(decoder: InstanceType<typeof TextDecoder>, piece?: Uint8Array): string {
  try {
    return decoder.decode(piece, { stream: piece !== undefined })
  } catch (cause) {
    throw new ProtocolError('the script is not UTF-8; it may be Latin-1 or UTF-16: convert it first', {
      cause,
    })
  }
}

function isBlank(text: string): boolean {
  try {
    return scanStatements(text).next().done === true
  } catch {
    return false
  }
}

function toPieces(source: ScriptSource): Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array> {
  if (typeof source === 'string') return [source]
  if (typeof source !== 'object' || source === null) throw sourceError(source)
  if (Symbol.asyncIterator in source || Symbol.iterator in source) return source
  // a Response, for example, is no stream
  if (!('getReader' in source)) throw sourceError(source)
  return readStream(source)
}

/** Iterates over a stream, for platforms where streams are not iterable. */
async function* readStream(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = stream.getReader()
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value
  } finally {
    await reader.cancel()
  }
}
