import { openBody } from '#transport'
import { type ArrayRow, type ObjectRow, rowDecoder } from './codec/result.ts'
import type { EncodedStatement } from './codec/statement.ts'
import {
  type CursorExchange,
  type Line,
  type Lines,
  type Opening,
  openCursor,
  refusal,
} from './cursor-exchange.ts'
import { ProtocolError, SqlError } from './errors.ts'
import type { Deadline } from './http/deadline.ts'
import type { SendOptions } from './http/http.ts'
import { sendWithIndex } from './http/replica-read.ts'
import type { StatementOptions } from './options.ts'
import type { CursorLease } from './stream/cursor-lease.ts'
import { stolen } from './stream/sql-request.ts'
import { timeoutError } from './transport/failure.ts'
import type { WireColumn, WireError, WireValue } from './wire.ts'

type CursorEntry =
  | { readonly baton: string | null }
  | { readonly type: 'step_begin'; readonly step: number; readonly cols: readonly WireColumn[] }
  | { readonly type: 'row'; readonly row: readonly WireValue[] }
  | { readonly type: 'step_end' }
  | { readonly type: 'step_error'; readonly step: number; readonly error: WireError }
  | { readonly type: 'error'; readonly error: WireError }
  | { readonly type: 'replication_index'; readonly replication_index: number | string | null }

type Row = ObjectRow | ArrayRow

/** Reads the answer to one cursor request. */
export class RowReader {
  /** Rows that were given. */
  count = 0
  /** The loop over the rows was left before their end. */
  isLeft = false
  /** Whether the request has left. */
  readonly progress = { isSent: false }
  readonly #lease: CursorLease
  readonly #statement: EncodedStatement
  readonly #options: StatementOptions
  readonly #deadline: Deadline
  /** Settles when the server has begun to answer, or will not. */
  #opening: Promise<readonly Line[]> | null = null
  #exchange: CursorExchange | null = null
  #lines: Lines | null = null
  /** The line that is waited for; it is not lost when the wait is given up. */
  #pending: Promise<Line> | null = null
  #finished: Promise<void> | null = null
  #decode: ((cells: readonly WireValue[]) => Row) | null = null
  #isDone = false

  constructor(lease: CursorLease, statement: EncodedStatement, options: StatementOptions) {
    this.#lease = lease
    this.#statement = statement
    this.#options = options
    this.#deadline = lease.connection.http.deadline(options.timeoutMs)
    lease.finish = () => this.#finish()
  }

  async *rows(): AsyncGenerator<Row, void, undefined> {
    const { stopped, over } = this.#lease
    const { signal } = this.#options
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
      if (stopped.signal.aborted) await this.#finish().catch((reason: unknown) => this.#lease.fail(reason))
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
    if (!this.#lease.request.isRead) this.#checkEnd()
  }

  /** Ends the reading before its end, so that the stream can go on. */
  #finish(): Promise<void> {
    this.#finished ??= this.#finishNow()
    return this.#finished
  }

  async #finishNow(): Promise<void> {
    const { request, over } = this.#lease
    // the stream goes on with the baton in the answer
    await this.#opening?.catch(() => {})
    // what changes something is read to its end: ended in the middle, it would take the transaction with it
    if (request.isRead || over.signal.aborted) this.#exchange?.abort()
    else
      for (let line = await this.#next(over.signal); !line.done; line = await this.#next(over.signal))
        if (!line.value.startsWith('{"type":"row"')) this.#read(line.value)
  }

  /** Sends the request. @returns the first lines of the answer */
  async #open(): Promise<readonly Line[]> {
    const { connection, holdsLock, request } = this.#lease
    const { http, baton, address } = connection
    const isRepeatable = baton === null && request.isRead && !holdsLock
    const send = (index: string | null, options: SendOptions): Promise<readonly Line[]> => {
      const batch = request.encodeBatch(true, index)
      const body = `{${baton ? `"baton":${JSON.stringify(baton)},` : ''}"batch":${batch}}`
      let exchange: CursorExchange
      return http.send<Opening, readonly Line[]>(
        {
          method: 'POST',
          path: '/v3/cursor',
          body,
          address,
          send: (head) => {
            exchange = openCursor(openBody(http.transport, head))
            return exchange
          },
          read: ({ status, retryAfter, lines, first, text }) => {
            if (!lines) throw refusal(status, address.origin, text, retryAfter, this.#statement.sql)
            this.#exchange = exchange
            this.#lines = lines
            this.#lease.opened()
            const [head, ...rest] = first
            // the stream goes on with its baton, whether its rows are wanted or not
            if (head && !head.done) this.#read(head.value)
            return rest
          },
        },
        {
          ...options,
          // the time is for each silence
          deadline: http.deadline(this.#deadline.timeoutMs),
          progress: this.progress,
          lane: null,
          isRepeatable,
          onLate: holdsLock ? () => this.#closeLate(exchange) : undefined,
        },
      )
    }
    const call = { deadline: this.#deadline, signal: this.#lease.over.signal }
    // a transaction has its snapshot already
    return await (request.isFirst ? sendWithIndex(http, isRepeatable, call, send) : send(null, call))
  }

  /** Given up before there were rows, with the write lock: the stream is closed when its baton is known. */
  #closeLate(exchange: CursorExchange): Promise<void> {
    const baton = exchange.head.then(({ first: [line] }) => {
      exchange.abort()
      return line?.done === false ? (JSON.parse(line.value) as { baton: string | null }).baton : null
    })
    return this.#lease.connection.closeAfter(baton)
  }

  /** Waits for the next line, no longer than the server may be silent. */
  async #next(signal: AbortSignal): Promise<Line> {
    if (!this.#lines) return { done: true, value: undefined }
    const { http, address } = this.#lease.connection
    const { timeoutMs } = this.#deadline
    const waiter = http.lifetime.wait<Line>(
      { ms: timeoutMs, signal, late: () => timeoutError(timeoutMs, address.origin, true) },
      () => 'unknown',
    )
    this.#pending ??= this.#lines.next()
    this.#pending.then(waiter.resolve, waiter.reject)
    const line = await waiter.promise
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
    const { connection, markLost } = this.#lease
    const { config, server } = connection.http
    if (!('type' in entry)) connection.baton = entry.baton
    else if (entry.type === 'replication_index') server.sawIndex(entry.replication_index)
    else if (entry.type === 'step_begin')
      this.#decode = rowDecoder(entry.cols, config.intMode, this.#options.rowMode)
    else if (entry.type === 'row' && this.#decode) return [this.#decode(entry.row)]
    else if (entry.type === 'step_end') this.#isDone = true
    else if (entry.type === 'step_error' || entry.type === 'error') {
      const error = new SqlError(entry.error, this.#statement.sql)
      throw error.code === 'TRANSACTION_TIMEOUT' ? stolen(error, markLost) : error
    }
    return []
  }

  #checkEnd(): void {
    const { inTransaction, markLost } = this.#lease
    if (inTransaction && this.#decode === null)
      throw markLost('TRANSACTION_LOST', 'the server had ended the transaction')
    if (!this.#isDone) throw new ProtocolError('the rows broke off before their end')
  }
}
