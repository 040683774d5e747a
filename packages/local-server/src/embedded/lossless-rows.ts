import type { EngineColumn, NativeValue } from './engine.ts'
import { decodeText, encodeValue } from './result-encoder.ts'
import { identifier, type Token, upper } from './sql-scanner.ts'
import type { Statement } from './statement.ts'

/*
 * The engine's binding cuts text off at U+0000 when it reads a row, and ends the process on text that is not UTF-8.
 * Bytes have neither problem. So rows are read through SQL that turns every text into a blob, and, to keep the two
 * apart, every blob into its hexadecimal text.
 */
const exchange = (name: string): string =>
  `CASE typeof(${name}) WHEN 'text' THEN CAST(${name} AS BLOB) WHEN 'blob' THEN hex(${name}) ELSE ${name} END`

/** Functions that may give something else each time. */
const VOLATILE_FUNCTIONS: ReadonlySet<string> = new Set([
  'RANDOM',
  'RANDOMBLOB',
  'LAST_INSERT_ROWID',
  'CHANGES',
  'TOTAL_CHANGES',
])

/**
 * A query around a query that hands its rows over in exchanged form. The `LIMIT` inside together with the `WHERE`
 * outside keeps SQLite from merging the two, so that each column is computed once; rows come as a co-routine, in
 * their order and without being stored.
 */
export function exchangedQuery(query: Statement, columnCount: number): string {
  const table = freshName(query.sql)
  const names = Array.from({ length: columnCount }, (_, index) => `c${index}`)
  return (
    `WITH ${table}(${names.join()}) AS (${query.sql}\n) ` +
    `SELECT ${names.map(exchange).join()} FROM (SELECT * FROM ${table} LIMIT -1) WHERE 1`
  )
}

/** The same for the RETURNING list of a change: each item becomes a subquery of its own. */
export function exchangedReturning(change: Statement, columns: readonly EngineColumn[]): string {
  const { sql, tokens, returningAt } = change
  const returning = tokens[returningAt] as Token
  const table = freshName(sql)
  const items = expandStars(sql, splitList(sql, tokens.slice(returningAt + 1)), columns)
  const list = items.map((item) =>
    item.isExchangeable
      ? `(WITH ${table}(x) AS (SELECT ${item.sql}\n) SELECT ${exchange('x')} FROM (SELECT x FROM ${table} LIMIT -1) WHERE 1)`
      : item.sql,
  )
  return `${sql.slice(0, returning.end)} ${list.join()}`
}

interface ReturningItem {
  readonly sql: string
  /**
   * Whether it may stand in a subquery. One without any column is computed once there and not for each row, which
   * would change what `random()` and its like give; those are left as they are.
   */
  readonly isExchangeable: boolean
}

function splitList(sql: string, tokens: readonly Token[]): (ReturningItem | '*')[] {
  const items: (ReturningItem | '*')[] = []
  let depth = 0
  let first = 0
  const finish = (end: number): void => {
    const own = tokens.slice(first, end)
    const text = sql.slice(own[0]?.start ?? 0, own.at(-1)?.end ?? 0)
    items.push(text === '*' ? '*' : { sql: text, isExchangeable: isExchangeable(sql, own) })
    first = end + 1
  }
  for (const [index, token] of tokens.entries()) {
    const character = token.kind === 'symbol' ? sql[token.start] : ''
    if (character === '(') depth += 1
    else if (character === ')') depth -= 1
    else if (character === ',' && depth === 0) finish(index)
  }
  finish(tokens.length)
  return items
}

function isExchangeable(sql: string, tokens: readonly Token[]): boolean {
  const isVolatile = tokens.some((token) => VOLATILE_FUNCTIONS.has(upper(sql, token)))
  return !isVolatile || tokens.some((token, at) => isColumn(sql, token, tokens[at + 1]))
}

function isColumn(sql: string, token: Token, next: Token | undefined): boolean {
  return identifier(sql, token) !== null && (next === undefined || sql[next.start] !== '(')
}

/** Puts the columns of the table in the place of `*`; which ones those are is known from the engine. */
function expandStars(
  sql: string,
  items: readonly (ReturningItem | '*')[],
  columns: readonly EngineColumn[],
): ReturningItem[] {
  const stars = items.filter((item) => item === '*').length
  if (stars === 0) return items as ReturningItem[]
  const width = (columns.length - (items.length - stars)) / stars
  const expanded: ReturningItem[] = []
  for (const item of items) {
    if (item !== '*') expanded.push(item)
    else {
      for (const column of columns.slice(expanded.length, expanded.length + width)) {
        expanded.push({ sql: `"${column.name.replaceAll('"', '""')}"`, isExchangeable: true })
      }
    }
  }
  return expanded
}

/** A table name the statement itself does not use. */
function freshName(sql: string): string {
  let name = 'baton_rows'
  for (let attempt = 0; sql.includes(name); attempt += 1) name = `baton_rows_${attempt}`
  return name
}

/** Writes a value that was read in exchanged form. */
export function encodeExchanged(value: NativeValue): string {
  if (typeof value === 'string') return encodeValue(Buffer.from(value, 'hex'))
  if (Buffer.isBuffer(value)) return `{"type":"text","value":${JSON.stringify(decodeText(value))}}`
  return encodeValue(value)
}
