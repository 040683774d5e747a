/** Position of a failed statement in its script. Lines and columns count from 1. */
export interface StatementPlace {
  readonly sql: string
  readonly line: number
  readonly column: number
}

/** A statement of a script failed. The message shows the line, and marks the position if the server reports it. */
export class StatementError extends Error {
  constructor(error: Error & { readonly code?: string }, place: StatementPlace, file: string | null) {
    const { reason, offset } = readPlace(error.message, place.sql)
    const before = place.sql.slice(0, offset).split('\n')
    const line = place.line + before.length - 1
    const ownColumn = (before.at(-1) as string).length
    const text = (place.sql.split('\n')[before.length - 1] as string).replace(/\r$/, '')
    const column = before.length === 1 ? place.column + ownColumn : ownColumn + 1
    const where = file === null ? `line ${line}, column ${column}` : `${file}:${line}:${column}`
    const { shown, caret } = cut(text, ownColumn)
    super(
      `${reason}${error.code === undefined ? '' : ` (${error.code})`}\n${where}:\n  ${shown}\n  ${caret}`,
      {
        cause: error,
      },
    )
  }
}

/** Maximum length of the shown line. */
const SHOWN = 100

function cut(line: string, at: number): { shown: string; caret: string } {
  const from = at > SHOWN * 0.8 ? at - SHOWN / 2 : 0
  const prefix = from > 0 ? '… ' : ''
  const shown = line.slice(from, from + SHOWN).replaceAll('\t', ' ')
  return { shown: prefix + shown, caret: `${' '.repeat(prefix.length + at - from)}^` }
}

/** Parses the position in an error from the server, relative to the statement; the beginning if it has none. */
function readPlace(message: string, sql: string): { reason: string; offset: number } {
  const byOffset = / \(at offset (\d+)\)$/.exec(message)
  if (byOffset)
    return { reason: withoutMatch(message, byOffset), offset: characters(sql, Number(byOffset[1])) }
  // the parser reports the end of the unexpected word
  const around = / around L(\d+):(\d+): `([^`]*)`$/.exec(message)
  if (around) {
    const [, line, column, word = ''] = around
    const end = positionOf(sql, Number(line), Number(column))
    return {
      reason: `${withoutMatch(message, around)} near "${word}"`,
      offset: Math.max(0, end - word.length),
    }
  }
  const at = / at \((\d+), (\d+)\)$/.exec(message)
  if (at) {
    const near = /near (\w+), "None"/.exec(message)
    const reason = withoutMatch(message, at).replace(/near (\w+), "None": (.*)/, '$2 near "$1"')
    const end = positionOf(sql, Number(at[1]), Number(at[2]))
    return { reason, offset: Math.max(0, end - (near?.[1]?.length ?? 0)) }
  }
  const [, name] =
    /no such \w+: (?:\w+\.)?(\w+)|has no column named (\w+)/.exec(message)?.filter(Boolean) ?? []
  const found = name === undefined ? -1 : sql.search(new RegExp(`\\b${name}\\b`))
  return { reason: message, offset: Math.max(0, found) }
}

const withoutMatch = (message: string, { index, 0: text }: RegExpExecArray): string =>
  message.slice(0, index) + message.slice(index + text.length)

/** Converts the server's line and column to an offset. Both count from 1, the column in bytes. */
function positionOf(sql: string, line: number, column: number): number {
  const lines = sql.split('\n')
  const before = lines.slice(0, line - 1).reduce((length, text) => length + text.length + 1, 0)
  return Math.min(sql.length, before + characters(lines[line - 1] ?? '', column - 1))
}

const characters = (text: string, bytes: number): number =>
  Buffer.from(text).subarray(0, bytes).toString().length
