import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import type http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Database as Connection } from '@tursodatabase/database/compat'
import { TestHttpServer } from './test-http-server.ts'

type WireValue = { readonly type: string; readonly value?: string | number; readonly base64?: string }

interface WireStatement {
  readonly sql: string
  readonly args?: readonly WireValue[]
  readonly named_args?: readonly { readonly name: string; readonly value: WireValue }[]
}

interface Condition {
  readonly type: 'ok' | 'error' | 'not' | 'and' | 'or' | 'is_autocommit'
  readonly step: number
  readonly cond: Condition
  readonly conds: readonly Condition[]
}

interface Batch {
  readonly steps: readonly { readonly stmt: WireStatement; readonly condition?: Condition | null }[]
}

interface Operation {
  readonly type: string
  readonly sql: string
  readonly stmt: WireStatement
  readonly batch: Batch
}

interface Result {
  readonly cols: readonly { readonly name: string; readonly decltype: string | null }[]
  readonly rows: readonly (readonly WireValue[])[]
  readonly affected_row_count: number
  readonly last_insert_rowid: string
}

type Outcome = { readonly result: Result } | { readonly error: { readonly message: string } } | null

/** Why tests of this engine cannot run here; null if they can. */
export const tursodbProblem: string | null = await import('@tursodatabase/database/compat').then(
  () => null,
  (error: Error) => `@tursodatabase/database has no build for this platform: ${error.message.split('\n')[0]}`,
)

/**
 * A server that provides Turso's engine over HTTP with Hrana 3, with one connection for each stream. Errors contain the engine's
 * text, but no code. Streams do not expire, and no statement waits for the write lock.
 */
export class TursodbServer extends TestHttpServer {
  readonly #open: () => Connection
  readonly #folder: string
  readonly #streams = new Map<string, Connection>()
  /** Returns an error as the server sends it; others add prefixes and codes to the engine's message. */
  formatError = (message: string): { readonly message: string; readonly code?: string } => ({ message })
  /** Bodies of the requests. */
  readonly bodies: string[] = []

  static async start(): Promise<TursodbServer> {
    const { Database } = await import('@tursodatabase/database/compat')
    const folder = mkdtempSync(join(tmpdir(), 'tursodb-'))
    return await new TursodbServer(folder, () => new Database(join(folder, 'data.db'))).listen()
  }

  private constructor(folder: string, open: () => Connection) {
    super()
    this.#open = open
    this.#folder = folder
    this.http.on('request', (request, response) => void this.#respond(request, response))
  }

  /** Number of streams that clients have not closed. */
  get streamCount(): number {
    return this.#streams.size
  }

  requestCount(): number {
    return this.bodies.length
  }

  override async close(): Promise<void> {
    await super.close()
    for (const connection of this.#streams.values()) connection.close()
    rmSync(this.#folder, { recursive: true })
  }

  readonly #formatErrors = (_: string, value: unknown): unknown => {
    const { message } = (value ?? {}) as { message?: unknown }
    return typeof message === 'string' ? this.formatError(message) : value
  }

  async #respond(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const [, path] = /^\/v[23]\/(pipeline|cursor)$/.exec(request.url ?? '') ?? []
    const body = await text(request)
    this.bodies.push(body)
    const {
      baton = null,
      requests,
      batch,
    } = JSON.parse(body || '{}') as {
      baton?: string | null
      requests: readonly Operation[]
      batch: Batch
    }
    const connection = baton === null ? this.#open() : this.#streams.get(baton)
    if (!path || !connection) {
      response.writeHead(404).end(path ? '{"error":"no such stream"}' : '')
      return
    }
    if (baton !== null) this.#streams.delete(baton)
    const nextBaton = randomUUID()
    const closesStream = path === 'pipeline' && requests.at(-1)?.type === 'close'
    if (!closesStream) this.#streams.set(nextBaton, connection)
    const head = { baton: closesStream ? null : nextBaton, base_url: null }
    const encode = (value: unknown): string => JSON.stringify(value, this.#formatErrors)
    if (path === 'pipeline') {
      const results = requests.map((operation) => runOperation(connection, operation))
      response.end(encode({ ...head, results }))
    } else {
      const entries = runBatch(connection, batch).flatMap((outcome, step) => toEntries(outcome, step))
      response.end([head, ...entries].map((entry) => `${encode(entry)}\n`).join(''))
    }
    if (closesStream) connection.close()
  }
}

function runOperation(connection: Connection, { type, sql, stmt, batch }: Operation): object {
  const succeed = (fields: object): object => ({ type: 'ok', response: { type, ...fields } })
  try {
    if (type === 'execute') return succeed({ result: run(connection, stmt) })
    if (type === 'sequence') connection.exec(sql)
    if (type === 'get_autocommit') return succeed({ is_autocommit: !connection.inTransaction })
    if (type === 'describe') {
      const cols = getColumns(connection.prepare(sql))
      return succeed({ result: { params: [], cols, is_explain: false, is_readonly: false } })
    }
    if (type !== 'batch') return succeed({})
    const outcomes = runBatch(connection, batch)
    const step_results = outcomes.map((outcome) => (outcome && 'result' in outcome ? outcome.result : null))
    const step_errors = outcomes.map((outcome) => (outcome && 'error' in outcome ? outcome.error : null))
    return succeed({ result: { step_results, step_errors } })
  } catch (error) {
    return { type: 'error', error: { message: (error as Error).message } }
  }
}

function runBatch(connection: Connection, { steps }: Batch): Outcome[] {
  const outcomes: Outcome[] = []
  const holds = ({ type, step, cond, conds }: Condition): boolean => {
    if (type === 'not') return !holds(cond)
    if (type === 'and') return conds.every(holds)
    if (type === 'or') return conds.some(holds)
    if (type === 'is_autocommit') return !connection.inTransaction
    const outcome = outcomes[step] ?? null
    return (type === 'ok') === (outcome !== null && 'result' in outcome)
  }
  for (const { stmt, condition } of steps) {
    try {
      outcomes.push(condition && !holds(condition) ? null : { result: run(connection, stmt) })
    } catch (error) {
      outcomes.push({ error: { message: (error as Error).message } })
    }
  }
  return outcomes
}

function toEntries(outcome: Outcome, step: number): object[] {
  if (outcome === null) return []
  if ('error' in outcome) return [{ type: 'step_error', step, error: outcome.error }]
  const { cols, rows, ...end } = outcome.result
  return [
    { type: 'step_begin', step, cols },
    ...rows.map((row) => ({ type: 'row', row })),
    { type: 'step_end', ...end },
  ]
}

type PreparedStatement = ReturnType<Connection['prepare']>

const getColumns = (statement: PreparedStatement): Result['cols'] =>
  (statement.columns() as { name: string; type: string | null }[]).map(({ name, type }) => ({
    name,
    decltype: type,
  }))

function run(connection: Connection, { sql, args = [], named_args: namedArgs = [] }: WireStatement): Result {
  const native = (connection as unknown as { db: { totalChanges(): number } }).db
  const before = native.totalChanges()
  const statement = connection.prepare(sql)
  const cols = getColumns(statement)
  const values =
    namedArgs.length > 0
      ? [Object.fromEntries(namedArgs.map(({ name, value }) => [name.replace(/^[:@$]/, ''), decode(value)]))]
      : args.map(decode)
  try {
    const rows = statement
      .raw(true)
      .safeIntegers(true)
      .all(...values) as unknown[][]
    return {
      cols,
      rows: rows.map((row) => row.map(encode)),
      affected_row_count: native.totalChanges() - before,
      last_insert_rowid: readLastRowid(connection),
    }
  } finally {
    statement.close()
  }
}

function readLastRowid(connection: Connection): string {
  const statement = connection.prepare('select last_insert_rowid()')
  const [[rowid]] = statement.raw(true).safeIntegers(true).all() as [[bigint]]
  statement.close()
  return String(rowid)
}

function decode({ type, value, base64 }: WireValue): unknown {
  if (type === 'integer') return BigInt(value as string)
  if (type === 'blob') return Buffer.from(base64 as string, 'base64')
  return type === 'null' ? null : value
}

function encode(value: unknown): WireValue {
  if (value === null) return { type: 'null' }
  if (typeof value === 'bigint') return { type: 'integer', value: String(value) }
  if (typeof value === 'number') return { type: 'float', value }
  if (typeof value === 'string') return { type: 'text', value }
  return { type: 'blob', base64: Buffer.from(value as Uint8Array).toString('base64') }
}
