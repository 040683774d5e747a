import { SqlError } from '@batonsql/core'

/** Position of a failed statement in its script. Lines and columns count from 1. */
export interface StatementPosition {
  readonly sql: string
  readonly line: number
  readonly column: number
}

/** A statement of a script failed. The message shows the line, and marks the position if the server reports it. */
export class StatementError extends Error {
  /** Whether the server has parsed the statement, and executed those that were sent before it in its request. */
  readonly isParsed: boolean

  constructor(error: Error & { readonly code?: string }, start: StatementPosition, file: string | null) {
    const { reason, offset } = parsePosition(error.message, start.sql)
    // up to the position, so that the last one is the beginning of the line that has the error
    const linesBefore = start.sql.slice(0, offset).split('\n')
    const line = start.line + linesBefore.length - 1
    const columnInStatement = (linesBefore.at(-1) as string).length
    const text = (start.sql.split('\n')[linesBefore.length - 1] as string).replace(/\r$/, '')
    const column = linesBefore.length === 1 ? start.column + columnInStatement : columnInStatement + 1
    const position = file === null ? `line ${line}, column ${column}` : `${file}:${line}:${column}`
    const { excerpt, caret } = cutExcerpt(text, columnInStatement)
    super(
      `${reason}${error.code === undefined ? '' : ` (${error.code})`}\n${position}:\n  ${excerpt}\n  ${caret}`,
      { cause: error },
    )
    this.isParsed = error instanceof SqlError && !/^SQL_(?!INPUT)/.test(error.code)
  }
}

/** Whether the client has rejected a statement, and has sent nothing: such an error has no outcome. */
export const isMisuse = (error: unknown): error is Error =>
  (error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError) &&
  !('outcome' in error)

/** Returns an error with the position of its statement, unless neither the server nor the client has rejected the statement. */
export function toStatementError(error: unknown, start: StatementPosition, file: string | null): unknown {
  return error instanceof SqlError || isMisuse(error) ? new StatementError(error, start, file) : error
}

/** Maximum length of the part of the line that is shown. */
const MAX_EXCERPT = 100
/** Longest part of the line before the position for which the excerpt begins with the line. */
const MAX_LEAD = 80

/** Returns the part of a line around a column, and a line that marks the column. */
function cutExcerpt(line: string, column: number): { excerpt: string; caret: string } {
  const from = column > MAX_LEAD ? column - MAX_EXCERPT / 2 : 0
  const prefix = from > 0 ? '… ' : ''
  const text = line.slice(from, from + MAX_EXCERPT).replaceAll('\t', ' ')
  return { excerpt: prefix + text, caret: `${' '.repeat(prefix.length + column - from)}^` }
}

/**
 * Parses the position in an error from the server, relative to the statement; the beginning if it has none. SQLite reports an offset;
 * libsql-server's parser the end of the unexpected word, in two formats.
 */
function parsePosition(message: string, sql: string): { reason: string; offset: number } {
  const offsetMatch = / \(at offset (\d+)\)$/.exec(message)
  if (offsetMatch)
    return {
      reason: withoutMatch(message, offsetMatch),
      offset: countCharacters(sql, Number(offsetMatch[1])),
    }
  const aroundMatch = / around L(\d+):(\d+): `([^`]*)`$/.exec(message)
  if (aroundMatch) {
    const [, line, column, word = ''] = aroundMatch
    const end = toOffset(sql, Number(line), Number(column))
    return {
      reason: `${withoutMatch(message, aroundMatch)} near "${word}"`,
      offset: Math.max(0, end - word.length),
    }
  }
  const atMatch = / at \((\d+), (\d+)\)$/.exec(message)
  if (atMatch) {
    const near = /near (\w+), "None"/.exec(message)
    const reason = withoutMatch(message, atMatch).replace(/near (\w+), "None": (.*)/, '$2 near "$1"')
    const end = toOffset(sql, Number(atMatch[1]), Number(atMatch[2]))
    return { reason, offset: Math.max(0, end - (near?.[1]?.length ?? 0)) }
  }
  const [, name] =
    /no such \w+: (?:\w+\.)?(\w+)|has no column named (\w+)/.exec(message)?.filter(Boolean) ?? []
  const index = name === undefined ? -1 : sql.search(new RegExp(`\\b${name}\\b`))
  return { reason: message, offset: Math.max(0, index) }
}

const withoutMatch = (message: string, { index, 0: text }: RegExpExecArray): string =>
  message.slice(0, index) + message.slice(index + text.length)

/** Converts the server's line and column to an offset. Both count from 1, the column in bytes. */
function toOffset(sql: string, line: number, column: number): number {
  const lines = sql.split('\n')
  const before = lines.slice(0, line - 1).reduce((length, text) => length + text.length + 1, 0)
  return Math.min(sql.length, before + countCharacters(lines[line - 1] ?? '', column - 1))
}

const countCharacters = (text: string, bytes: number): number =>
  Buffer.from(text).subarray(0, bytes).toString().length
