import { type ArrayRow, type Client, describe, type InArgs, readRows, type Value } from '@batonsql/core'
import { isReadingStatement } from '@batonsql/inspector/reading-statement'

/** Limits of a result, so that it fits into an agent's context. */
const MAX_CHARACTERS = 60_000
const MAX_CELL_CHARACTERS = 4_000

/** A result for an agent. */
export interface QueryResult {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly unknown[])[]
  /** Why rows are missing; absent if none are. */
  readonly incomplete?: string
}

export interface QueryOptions {
  readonly maxRows: number
  readonly signal: AbortSignal
}

const MAY_CHANGE =
  'This statement may change the database. Only SELECT, VALUES, WITH, EXPLAIN of a query or a change of rows, and PRAGMAs that read are allowed.'

/**
 * Runs a read-only statement, in a transaction that is never committed. The server determines whether it is read-only, by preparing
 * it. Before that, its text must be that of a query, because libSQL executes some DDL when it prepares it.
 * @throws Error for a statement that may write
 */
export async function runQuery(
  db: Client,
  sql: string,
  args: InArgs,
  { maxRows, signal }: QueryOptions,
): Promise<QueryResult> {
  if (!isReadingStatement(sql)) throw new Error(MAY_CHANGE)
  const { isReadOnly, isExplain, columns } = await describe(db, sql, { signal })
  // EXPLAIN of a change is reported as not read-only, but changes nothing
  if (!isReadOnly && !isExplain) throw new Error(MAY_CHANGE)
  const rows: unknown[][] = []
  let characters = 0
  let incomplete: string | undefined
  const read = db.transaction(
    async (tx) => {
      for await (const row of readRows(tx, sql, args, { rowMode: 'array', signal })) {
        const cells = toJsonValues(row)
        characters += JSON.stringify(cells).length
        if (rows.length === maxRows) incomplete = `There are more than ${maxRows} rows.`
        else if (characters > MAX_CHARACTERS) incomplete = `Only the first ${rows.length} rows fit.`
        if (incomplete !== undefined) break
        rows.push(cells)
      }
      throw new Rollback()
    },
    // not `readonly`, which takes another request on Turso's engine
    { mode: 'deferred' },
  )
  await read.catch((error: unknown) => {
    if (!(error instanceof Rollback)) throw error
  })
  const names = columns.map(({ name }) => name)
  return incomplete === undefined ? { columns: names, rows } : { columns: names, rows, incomplete }
}

/** Thrown in a transaction so that it is rolled back. */
class Rollback extends Error {}

/**
 * Returns the values of a row for JSON: integers beyond 2^53 as text, infinities, which the client reads as NaN, as the text `NaN`,
 * blobs as base64, long values truncated.
 */
const toJsonValues = (row: ArrayRow): unknown[] => Array.from(row, toJsonValue)

function toJsonValue(value: Value): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (typeof value === 'string') {
    if (value.length <= MAX_CELL_CHARACTERS) return value
    return { beginning: value.slice(0, MAX_CELL_CHARACTERS), characters: value.length }
  }
  if (!(value instanceof Uint8Array)) return value
  const beginning = Buffer.from(value.subarray(0, MAX_CELL_CHARACTERS / 4)).toString('base64')
  return value.length <= MAX_CELL_CHARACTERS / 4
    ? { base64: beginning }
    : { beginningInBase64: beginning, bytes: value.length }
}
