import {
  DisconnectedError,
  ModelConnection,
  ModelDatabase,
  SqlFailure,
  type StatementResult,
  Unreadable,
} from './model-database.ts'
import {
  ApiError,
  ModelProgram,
  type ServerRequest,
  type StepResult,
  toCommands,
  type WireStatement,
  type WireStep,
} from './model-program.ts'
import type { Command } from './model-sql.ts'
import type { World } from './world.ts'

/** How a server deviates from a current libsql-server. */
export interface ServerPlan {
  /** Whether it supports only `/v2`, and no cursors. */
  readonly isOld?: boolean
  /** Whether it supports only `execute` and `close` on `/v2/pipeline`. */
  readonly isExecuteOnly?: boolean
  /** Whether it has `/v3/pipeline`, but no cursors. */
  readonly hasNoCursor?: boolean
  /** Whether it runs every step of a batch, whatever its condition. */
  readonly ignoresConditions?: boolean
  /** How far the responding replica lags behind, in ms. */
  readonly lagMs?: number
  /** Whether it responds without a replication index. */
  readonly hasNoIndex?: boolean
  /** Whether it runs Turso's engine: a writer is rejected while another one holds the lock, with no time limit. */
  readonly isTursodb?: boolean
}

export interface ServerResponse {
  readonly status: number
  readonly body: string
  /** The lines of a cursor, generated as they are read. */
  readonly lines?: AsyncGenerator<string, void, undefined>
}

type WireRequest =
  | { readonly type: 'execute'; readonly stmt: WireStatement }
  | { readonly type: 'batch'; readonly batch: WireBatch }
  | { readonly type: 'sequence'; readonly sql: string }
  | { readonly type: 'get_autocommit' | 'close' }

interface WireBatch {
  readonly steps: readonly WireStep[]
  readonly replication_index?: string | number | null
}

/** A connection that the server keeps from request to request. */
class ServerStream {
  readonly id: number
  readonly connection: ModelConnection
  sequence = 0
  isRunning = false
  expiresAt = Infinity
  /** Settles when the cursor that uses the connection has finished. */
  cursor: Promise<void> = Promise.resolve()
  cancelExpiry: () => void = () => {}

  constructor(id: number, connection: ModelConnection) {
    this.id = id
    this.connection = connection
  }

  get baton(): string {
    return `${this.id}.${this.sequence}`
  }
}

const IDLE_TIMEOUT_MS = 10_000

/** A libsql-server, as seen by a client. */
export class ModelServer {
  readonly database: ModelDatabase
  readonly streams = new Map<number, ServerStream>()
  readonly #plan: ServerPlan
  readonly #world: World
  /** Ids of streams that were closed because they were idle. */
  readonly #expired = new Set<number>()
  #nextStream = 1
  #generation = 0
  /** The value at which its replication index starts. */
  #indexBase = 10
  /** The token that it accepts; null accepts any. */
  token: string | null = null
  /** Whether faults are no longer injected, so that replicas do not lag. */
  isFaultFree = false
  /** Number of streams that clients left open until they expired. */
  expiries = 0

  constructor(world: World, plan: ServerPlan) {
    this.#world = world
    this.#plan = plan
    this.database = new ModelDatabase(world, plan.isTursodb)
  }

  /** Restarts at once. Durable changes are kept. */
  restart(restartsIndex: boolean): void {
    this.#generation += 1
    for (const stream of this.streams.values()) {
      stream.cancelExpiry()
      stream.connection.isClosed = true
      stream.connection.transaction = null
    }
    this.streams.clear()
    this.database.crash()
    if (restartsIndex) this.#indexBase = -this.database.commits.length
  }

  /** Handles a request. @throws DisconnectedError if the server stops in the meantime */
  async handle(request: ServerRequest): Promise<ServerResponse> {
    const generation = this.#generation
    const reply = await this.#respond(request)
    if (generation !== this.#generation) throw new DisconnectedError('the server has stopped')
    return reply
  }

  async #respond(request: ServerRequest): Promise<ServerResponse> {
    const { path, token } = request
    const { hasNoCursor, isExecuteOnly } = this.#plan
    const isOld = this.#plan.isOld || isExecuteOnly
    if (path === '/health') return { status: 200, body: '' }
    if (path === '/version') return { status: 200, body: 'sqld 0.24.32 (model 2025-02-14)' }
    const [, version, route] = /^\/v([23])\/(pipeline|cursor)$/.exec(path) ?? []
    const isMissing = version === '3' ? isOld || (route === 'cursor' && hasNoCursor) : route === 'cursor'
    if (!route || isMissing) return { status: 404, body: '' }
    if (this.token !== null && token !== this.token)
      return createJsonResponse(401, { error: 'Authentication failed: The JWT has expired' })
    let body: { baton?: string | null; requests?: WireRequest[]; batch?: WireBatch }
    try {
      body = JSON.parse(request.body, (key, value: unknown) =>
        key === 'condition' && this.#plan.ignoresConditions ? null : value,
      )
    } catch (error) {
      return { status: 400, body: `Cannot deserialize client message from JSON: ${String(error)}` }
    }
    const unknownRequest = body.requests?.find(({ type }) => type !== 'execute' && type !== 'close')
    if (isExecuteOnly && unknownRequest)
      return createJsonResponse(400, {
        error: `unknown variant \`${unknownRequest.type}\`, expected \`execute\` or \`close\``,
      })
    const stream = this.#openStream(body.baton ?? null)
    if (!(stream instanceof ServerStream)) return stream
    if (route === 'cursor') return this.#runCursor(stream, body.batch as WireBatch, request)
    return await this.#runPipeline(stream, body.requests ?? [], request, version === '3')
  }

  /** Finds the stream of a baton, or opens one. */
  #openStream(baton: string | null): ServerStream | ServerResponse {
    if (baton === null) {
      const { lagMs } = this.#plan
      const countVisibleRows = lagMs === undefined ? undefined : () => this.#countReplicated(lagMs)
      const stream = new ServerStream(
        this.#nextStream++,
        new ModelConnection(this.database, countVisibleRows),
      )
      this.streams.set(stream.id, stream)
      stream.isRunning = true
      return stream
    }
    const [id = 0, sequence] = baton.split('.').map(Number)
    if (this.#expired.has(id))
      return createJsonResponse(400, {
        message: 'The stream has expired due to inactivity',
        code: 'STREAM_EXPIRED',
      })
    const stream = this.streams.get(id)
    if (!stream) return { status: 400, body: 'Received an invalid baton' }
    if (stream.sequence !== sequence || stream.isRunning)
      return { status: 400, body: 'Received a baton that has already been used' }
    stream.isRunning = true
    stream.cancelExpiry()
    return stream
  }

  /** Counts the rows on a replica that is this far behind. */
  #countReplicated(lagMs: number): number {
    const { commits, rows } = this.database
    if (this.isFaultFree) return rows.length
    const newer = commits.filter(({ at }) => at > this.#world.now - lagMs)
    return rows.length - newer.reduce((sum, { tags }) => sum + tags.length, 0)
  }

  #drop(stream: ServerStream): void {
    stream.cancelExpiry()
    this.streams.delete(stream.id)
    stream.connection.close()
  }

  #release(stream: ServerStream): string {
    stream.isRunning = false
    stream.sequence += 1
    stream.cancelExpiry()
    stream.cancelExpiry = this.#world.after(IDLE_TIMEOUT_MS, () => {
      this.expiries += 1
      this.#expired.add(stream.id)
      this.streams.delete(stream.id)
      // rows that are being read are read to the end
      void stream.cursor.then(() => this.#drop(stream))
    })
    return stream.baton
  }

  async #runPipeline(
    stream: ServerStream,
    requests: readonly WireRequest[],
    request: ServerRequest,
    isV3: boolean,
  ): Promise<ServerResponse> {
    const results: unknown[] = []
    let isOpen = true
    await stream.cursor
    try {
      for (const wireRequest of requests) {
        if (wireRequest.type === 'close') {
          isOpen = false
          this.#drop(stream)
          results.push({ type: 'ok', response: { type: 'close' } })
          continue
        }
        if (wireRequest.type === 'get_autocommit' && !isV3)
          throw new ApiError(
            400,
            'The `get_autocommit` request is only supported in protocol version hrana3 and higher',
          )
        if (!isOpen) throw new ApiError(400, 'Stream for this baton was closed')
        results.push(await this.#run(stream, wireRequest, request, isV3))
      }
    } catch (error) {
      this.#drop(stream)
      if (error instanceof ApiError) return { status: error.status, body: error.message }
      if (error instanceof Unreadable) return createJsonResponse(500, { error: error.message })
      throw error
    }
    return createJsonResponse(200, { baton: isOpen ? this.#release(stream) : null, base_url: null, results })
  }

  async #run(
    stream: ServerStream,
    wireRequest: WireRequest,
    request: ServerRequest,
    isV3: boolean,
  ): Promise<unknown> {
    const { connection } = stream
    if (wireRequest.type === 'get_autocommit')
      return { type: 'ok', response: { type: wireRequest.type, is_autocommit: connection.isAutocommit } }
    if (wireRequest.type === 'execute') await this.#waitForIndex(wireRequest.stmt.replication_index)
    if (wireRequest.type === 'batch') await this.#waitForIndex(wireRequest.batch.replication_index)
    const program = new ModelProgram(stream.connection, request, this.#world)
    try {
      if (wireRequest.type === 'execute') {
        const result = await program.runSingle(wireRequest.stmt)
        return { type: 'ok', response: { type: 'execute', result: this.#encodeResult(result) } }
      }
      if (wireRequest.type === 'sequence') {
        await program.sequence(wireRequest.sql)
        return { type: 'ok', response: { type: 'sequence' } }
      }
      if (wireRequest.type !== 'batch') throw new ApiError(400, `unknown variant \`${wireRequest.type}\``)
      const steps = await program.batch(wireRequest.batch.steps, isV3)
      const result = {
        step_results: steps.map((step) => (step && 'rows' in step ? this.#encodeResult(step, false) : null)),
        step_errors: steps.map((step) => (step instanceof SqlFailure ? encodeError(step) : null)),
        replication_index: this.#index,
      }
      return { type: 'ok', response: { type: 'batch', result } }
    } catch (error) {
      if (error instanceof SqlFailure) return { type: 'error', error: encodeError(error) }
      throw error
    } finally {
      connection.onFinished()
    }
  }

  get #index(): string | null {
    return this.#plan.hasNoIndex || this.#plan.isTursodb
      ? null
      : String(this.#indexBase + this.database.commits.length)
  }

  /** Waits until the replica has caught up to this index. */
  async #waitForIndex(index: string | number | null | undefined): Promise<void> {
    const { lagMs } = this.#plan
    if (index == null || lagMs === undefined || this.isFaultFree) return
    const generation = this.#generation
    const hasCaughtUp = (): boolean => {
      const newer = this.database.commits.filter(({ at }) => at > this.#world.now - lagMs).length
      return this.#indexBase + this.database.commits.length - newer >= Number(index)
    }
    while (!hasCaughtUp()) {
      await this.#world.sleep(20)
      if (generation !== this.#generation) throw new DisconnectedError('the server has stopped')
    }
  }

  #encodeResult({ columns, rows, changed, rowid }: StatementResult, hasIndex = true): unknown {
    return {
      cols: columns.map((name) => ({ name, decltype: 'INTEGER' })),
      rows: rows.map((row) => [{ type: 'integer', value: String(row) }]),
      affected_row_count: changed,
      last_insert_rowid: rowid === null ? null : String(rowid),
      replication_index: hasIndex ? this.#index : null,
      rows_read: 0,
      rows_written: 0,
      query_duration_ms: 0.1,
    }
  }

  async #runCursor(stream: ServerStream, batch: WireBatch, request: ServerRequest): Promise<ServerResponse> {
    await stream.cursor
    let commands: Command[]
    try {
      commands = toCommands(batch.steps, true)
    } catch (error) {
      this.#drop(stream)
      if (error instanceof ApiError) return { status: error.status, body: error.message }
      if (error instanceof SqlFailure)
        return createJsonResponse(500, { error: `Internal Error: \`${error.message}\`` })
      throw error
    }
    // the cursor uses the connection until it has finished, but the stream's time limit is already running
    let onDone = (): void => {}
    stream.cursor = new Promise((resolve) => {
      onDone = resolve
    })
    const baton = this.#release(stream)
    return {
      status: 200,
      body: '',
      lines: this.#generateLines(stream, baton, batch, commands, request, onDone),
    }
  }

  async *#generateLines(
    stream: ServerStream,
    baton: string,
    { steps, replication_index: index }: WireBatch,
    commands: readonly Command[],
    request: ServerRequest,
    onDone: () => void,
  ): AsyncGenerator<string, void, undefined> {
    const toLine = (value: unknown): string => `${JSON.stringify(value)}\n`
    const program = new ModelProgram(stream.connection, request, this.#world)
    let isWriting = false
    try {
      yield toLine({ baton, base_url: null })
      await this.#waitForIndex(index)
      const results: StepResult[] = []
      for (const [index, { condition }] of steps.entries()) {
        if (!program.holds(condition, results)) {
          results.push(null)
          continue
        }
        const result = await program.step(commands[index] as Command)
        results.push(result)
        if (result instanceof SqlFailure) {
          // a statement that fails when it is prepared has not begun
          const hasBegun = commands[index]?.kind !== 'missing table' && result.code !== 'TRANSACTION_TIMEOUT'
          if (hasBegun) yield toLine({ type: 'step_begin', step: index, cols: getColumns(commands[index]) })
          yield toLine({ type: 'step_error', step: index, error: encodeError(result) })
          continue
        }
        const cols = result.columns.map((name) => ({ name, decltype: 'INTEGER' }))
        isWriting = commands[index]?.kind === 'insert'
        yield toLine({ type: 'step_begin', step: index, cols })
        for (const row of result.rows)
          yield toLine({ type: 'row', row: [{ type: 'integer', value: String(row) }] })
        yield toLine({
          type: 'step_end',
          affected_row_count: result.changed,
          last_insert_rowid: result.rowid,
        })
        isWriting = false
      }
      const lastIndex = this.#index === null ? null : Number(this.#index)
      yield toLine({ type: 'replication_index', replication_index: lastIndex })
    } finally {
      // SQLite rolls back when a statement that writes is interrupted
      if (isWriting) stream.connection.rollback()
      stream.connection.onFinished()
      onDone()
    }
  }
}

/** Returns the columns that a statement would have had if it had not failed. */
const getColumns = (command: Command | undefined): unknown =>
  command?.kind === 'insert' && command.isReturning ? [{ name: 'a', decltype: 'INTEGER' }] : []

const encodeError = ({ message, code }: SqlFailure): unknown => ({ message, code })
const createJsonResponse = (status: number, value: unknown): ServerResponse => ({
  status,
  body: JSON.stringify(value),
})
