import { asNotApplied, ProtocolError, SqlError, StreamError, TransportError } from '../base/errors.ts'
import type { WireColumn, WireError, WireValue } from '../base/wire.ts'
import { type ArrayRow, type ObjectRow, rowDecoder } from '../codec/result.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import { type Http, urlOf, valueOf } from '../http/http.ts'
import { openObservedBody } from '../http/observed-body.ts'
import type { StatementOptions } from '../options.ts'
import { areReadOnly, type Cursor, type QueuedCall } from '../request/queued-call.ts'
import { SqlRequest, writeLockTakenOver } from '../request/sql-request.ts'
import {
  type CursorExchange,
  type Line,
  type Lines,
  type Opening,
  openCursor,
  refusal,
} from './cursor-exchange.ts'
import type { HandleCall, SentAt, ServerStream } from './server-stream.ts'
import { policyOf } from './stream-connection.ts'

/** What is read, and for how long. */
type CursorCall = HandleCall & { readonly options: StatementOptions }

type CursorEntry =
  | { readonly baton: string | null }
  | { readonly type: 'step_begin'; readonly step: number; readonly cols: readonly WireColumn[] }
  | { readonly type: 'row'; readonly row: readonly WireValue[] }
  | { readonly type: 'step_end' }
  | { readonly type: 'step_error'; readonly step: number; readonly error: WireError }
  | { readonly type: 'error'; readonly error: WireError }
  | { readonly type: 'replication_index'; readonly replication_index: number | string | null }

type Row = ObjectRow | ArrayRow

/** Reads the answer to one cursor request. It has its stream to itself until it gives it back. */
export class RowReader implements Cursor {
  readonly owner: object
  isStopped = false
  /** Rows that were given. */
  count = 0
  /** The loop over the rows was left before their end. */
  isLeft = false
  readonly #stream: ServerStream
  readonly #statement: EncodedStatement
  readonly #call: CursorCall
  readonly #inTransaction: boolean
  readonly #request: SqlRequest
  /** Aborted when no more rows are wanted: the handle that reads them has ended, and the stream may go on. */
  readonly #stopped = new AbortController()
  /** Aborted, too, when the stream ends. */
  readonly #over = new AbortController()
  /** Set when the request has left. */
  #sent: SentAt | null = null
  /** Why the reading has failed, and what that means. */
  #failure: { readonly error: unknown; readonly reason: unknown } | null = null
  /** Settles when the server has begun to answer, or will not. */
  #opening: Promise<readonly Line[]> | null = null
  #exchange: CursorExchange | null = null
  #lines: Lines | null = null
  /** The line that is waited for; it is not lost when the wait is given up. */
  #pending: Promise<Line> | null = null
  #finished: Promise<void> | null = null
  #decode: ((cells: readonly WireValue[]) => Row) | null = null
  #isDone = false

  private constructor(stream: ServerStream, owner: object, statement: EncodedStatement, call: CursorCall) {
    this.#stream = stream
    this.owner = owner
    this.#statement = statement
    this.#call = call
    this.#inTransaction = stream.transaction.isOpen
    const ignore = (): void => {}
    const scope = this.#inTransaction ? 'transaction' : 'autocommit'
    const queued = { ...call, statements: [statement], scope, canCoalesce: false } as const
    this.#request = new SqlRequest([
      {
        ...queued,
        prefix: [],
        isReadOnly: areReadOnly([statement], call.options),
        resolve: ignore,
        reject: ignore,
      },
    ])
  }

  /** Waits for its turn in the stream's queue. */
  static async open(
    stream: ServerStream,
    owner: object,
    statement: EncodedStatement,
    call: CursorCall,
  ): Promise<RowReader> {
    const reader = new RowReader(stream, owner, statement, call)
    await stream.read(reader, statement, call)
    return reader
  }

  get isReadOnly(): boolean {
    return this.#request.isReadOnly
  }

  get http(): Http {
    return this.#stream.http
  }

  /** The number of the transaction in events. */
  get transactionId(): number | null {
    return this.#stream.transaction.current?.id ?? null
  }

  stop(isOver: boolean, reason: unknown): void {
    this.isStopped = true
    if (isOver) this.#over.abort(reason)
    this.#stopped.abort(reason)
    void this.#finish()
      .catch((error: unknown) => this.fail(error))
      .then(() => this.giveBack())
  }

  /** The stream goes on. */
  giveBack(): void {
    this.#stream.releaseCursor(this)
  }

  /** Tells the stream that the reading has failed. @returns what the loop over the rows throws */
  fail(error: unknown): unknown {
    if (!this.#sent) return error
    // also found out by what ended the reading
    if (this.#failure && this.#failure.error === error) return this.#failure.reason
    const reason = this.#reasonOf(error, this.#sent)
    this.#failure = { error, reason }
    return reason
  }

  #reasonOf(error: unknown, sent: SentAt): unknown {
    let reason: unknown = error
    const [call] = this.#request.calls as [QueuedCall]
    const reject = (its: unknown): void => {
      reason = its
    }
    this.#stream.cursorFailed(this, error, { ...call, reject }, sent)
    if (this.#request.isReadOnly) return asNotApplied(reason)
    // the end of the stream does not undo what takes effect by itself
    if (this.#inTransaction || !(reason instanceof StreamError)) return reason
    return new TransportError('CLOSED', reason.message, 'unknown', reason)
  }

  async *rows(): AsyncGenerator<Row, void, undefined> {
    const [stopped, over] = [this.#stopped, this.#over]
    const { signal } = this.#call.options
    // given up by the user, the stream ends
    const giveUp = (): void => {
      over.abort(signal?.reason)
      stopped.abort(signal?.reason)
    }
    signal?.addEventListener('abort', giveUp)
    // also while no row is waited for
    const abort = (): void => this.#exchange?.abort()
    over.signal.addEventListener('abort', abort)
    let isOver = false
    try {
      if (signal?.aborted) giveUp()
      stopped.signal.throwIfAborted()
      this.#opening = this.#open()
      const first = [...(await this.#opening)]
      for (;;) {
        stopped.signal.throwIfAborted()
        const line = first.shift() ?? (await this.#next(stopped.signal))
        if (line.done) break
        for (const row of this.#read(line.value)) {
          this.count += 1
          yield row
        }
      }
      isOver = true
      this.#checkEnd()
    } catch (error) {
      isOver = true
      // the stream may go on
      if (stopped.signal.aborted) await this.#finish().catch((reason: unknown) => this.fail(reason))
      else this.#exchange?.abort()
      throw error
    } finally {
      try {
        if (!isOver) await this.#leave()
      } finally {
        over.signal.removeEventListener('abort', abort)
        signal?.removeEventListener('abort', giveUp)
      }
    }
  }

  async #leave(): Promise<void> {
    this.isLeft = true
    await this.#finish()
    if (this.#request.isReadOnly) return
    this.#over.signal.throwIfAborted()
    this.#checkEnd()
  }

  /** Ends the reading before its end, so that the stream can go on. */
  #finish(): Promise<void> {
    this.#finished ??= this.#finishNow()
    return this.#finished
  }

  async #finishNow(): Promise<void> {
    // the stream goes on with the baton in the answer
    await this.#opening
    // what changes something is read to its end: ended in the middle, it would take the transaction with it
    const { signal } = this.#over
    if (this.#request.isReadOnly || signal.aborted) {
      this.#exchange?.abort()
      return
    }
    try {
      for (let line = await this.#next(signal); !line.done; line = await this.#next(signal))
        if (!line.value.startsWith('{"type":"row"')) this.#read(line.value)
    } catch (error) {
      // the server would not go on with the stream
      this.#exchange?.abort()
      throw error
    }
  }

  /** Sends the request. @returns the first lines of the answer */
  async #open(): Promise<readonly Line[]> {
    const { connection, http } = this.#stream
    const { baton, address } = connection
    const request = this.#request
    const holdsLock = request.needsWriteLock || this.#stream.transaction.holdsLock
    const deadline = http.deadline(this.#call.options.timeoutMs)
    const startedAt = http.clock.now()
    const path = '/v3/cursor'
    let exchange: CursorExchange | undefined
    const sent = await http.send<Opening, readonly Line[]>(
      {
        path,
        body: (index) => {
          // the time is for each silence
          deadline.restart()
          return `{${baton ? `"baton":${JSON.stringify(baton)},` : ''}"batch":${request.encodeBatch(true, index)}}`
        },
        address,
        send: (head) => {
          exchange = openCursor(openObservedBody(http, head))
          return exchange
        },
        read: ({ status, retryAfter, lines, first, text }) => {
          if (!lines) throw refusal(status, urlOf(address, path), text, retryAfter, this.#statement.sql)
          this.#exchange = exchange ?? null
          this.#lines = lines
          if (request.needsWriteLock) this.#stream.transaction.current?.gotLock()
          const [head, ...rest] = first
          // the stream goes on with its baton, whether its rows are wanted or not
          if (head && !head.done) this.#read(head.value)
          return rest
        },
      },
      {
        deadline,
        signal: this.#over.signal,
        limiter: null,
        // a transaction has its snapshot already
        needsIndex: request.isFirst,
        policy: policyOf(request, baton, holdsLock),
      },
    )
    if (sent.isOk || sent.isSent) this.#sent = { startedAt, continuesStream: baton !== null }
    if (!sent.isOk && sent.readLateResponse && exchange)
      connection.closeAfterLateResponse(this.#readBaton(exchange))
    if (!sent.isOk && sent.error instanceof SqlError && baton !== null) {
      // the server has dropped the stream with a statement that it cannot parse
      connection.setBaton(null)
      const code = this.#inTransaction ? 'TRANSACTION_LOST' : 'STREAM_LOST'
      this.#stream.markLost(code, 'the server dropped the stream', sent.error)
    }
    return valueOf(sent)
  }

  /** Given up before there were rows, with the write lock: the stream is closed when its baton is known. */
  async #readBaton(exchange: CursorExchange): Promise<void> {
    const [line] = (await exchange.head).first
    exchange.abort()
    if (line?.done !== false) throw new ProtocolError('an answer without a baton')
    this.#read(line.value)
  }

  /** Waits for the next line, no longer than the server may be silent. */
  async #next(signal: AbortSignal): Promise<Line> {
    const lines = this.#lines
    if (!lines) return { done: true, value: undefined }
    const { http } = this.#stream
    const { timeoutMs = http.config.requestTimeoutMs } = this.#call.options
    const deadline = { leftMs: timeoutMs, timeoutMs }
    const next = (): Promise<Line> => (this.#pending ??= lines.next())
    const line = await http.lifetime.until(next, { deadline, signal, mayHaveRun: () => true })
    this.#pending = null
    return line
  }

  /** Takes one line of the answer. @returns what it has of rows: one or none */
  #read(line: string): Row[] {
    try {
      return this.#take(JSON.parse(line) as CursorEntry)
    } catch (error) {
      throw ProtocolError.of(error)
    }
  }

  #take(entry: CursorEntry): Row[] {
    const { connection, http, markLost } = this.#stream
    const { config, replica } = http
    if (!('type' in entry)) connection.setBaton(entry.baton)
    else if (entry.type === 'replication_index') replica.record(entry.replication_index)
    else if (entry.type === 'step_begin')
      this.#decode = rowDecoder(entry.cols, config.intMode, this.#call.options.rowMode)
    else if (entry.type === 'row' && this.#decode) return [this.#decode(entry.row)]
    else if (entry.type === 'step_end') this.#isDone = true
    else if (entry.type === 'step_error' || entry.type === 'error') {
      const error = new SqlError(entry.error, this.#statement.sql)
      throw error.code === 'TRANSACTION_TIMEOUT' ? writeLockTakenOver(error, markLost) : error
    }
    return []
  }

  #checkEnd(): void {
    if (this.#inTransaction && this.#decode === null)
      throw this.#stream.markLost('TRANSACTION_LOST', 'the server had ended the transaction')
    if (!this.#isDone) throw new ProtocolError('the rows broke off before their end')
  }
}
