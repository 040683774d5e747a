import { asNotApplied, ProtocolError, SqlError, StreamError, TransportError } from '../base/errors.ts'
import { withSignals } from '../base/join-signals.ts'
import { beginStatement, PROBE, ROLLBACK } from '../codec/control.ts'
import { UNPROVEN_V3_GUARD } from '../codec/guard.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import { joinUrl, unwrap } from '../http/http.ts'
import { openObservedBody } from '../http/observed-body.ts'
import type { RowsOptions } from '../options.ts'
import { areReadOnly, type CursorCall, type CursorReader, type ParseCall } from '../request/queued-call.ts'
import { SqlRequest } from '../request/sql-request.ts'
import { CursorDecoder, isRow, type Row } from './cursor-decoder.ts'
import {
  type CursorExchange,
  type CursorStart,
  type Line,
  type Lines,
  openCursor,
  rejectionError,
} from './cursor-exchange.ts'
import { type CallContext, choosePolicy, isUnsupportedPath, type ServerStream } from './server-stream.ts'
import { holdsLock, isInTransaction, isOutdated } from './stream-state.ts'

type RowsCall = CallContext & { readonly options: RowsOptions }

/**
 * A cursor: it waits in the queue of its stream like any call, then sends its request and reads the rows as the loop wants them. No
 * other call uses the stream from then until `release`. It ends in one of these ways:
 * - the rows are read to their end;
 * - the loop is left early, or a value cannot be read: the rest of a read is dropped, a write is read to its end;
 * - its handle ends, and `stop` is called: the loop throws, and the stream continues in the same way;
 * - its stream ends, or the user's signal is aborted: the request is aborted, and the loop throws;
 * - the request or a response fails, and the stream is lost.
 */
export class RowReader implements CursorReader {
  readonly owner: object
  count = 0
  /** Whether the loop over the rows was left early. */
  stoppedEarly = false
  /** What the caller has passed to the iterator's `throw()`, as a destroyed `Readable.from()` does. */
  #thrown: { readonly error: unknown } | null = null
  readonly #stream: ServerStream
  readonly #statement: EncodedStatement
  readonly #call: RowsCall
  readonly #inTransaction: boolean
  readonly #queuedCall: CursorCall
  readonly #request: SqlRequest
  /** Aborted when no more rows are wanted because their handle has ended. The stream can continue. */
  readonly #stopController = new AbortController()
  /** Aborted if the stream ends too. */
  readonly #endController = new AbortController()
  #isSent = false
  /** The error that ended the cursor, and the one that the loop throws for it. */
  #failure: { readonly error: unknown; readonly reason: unknown } | null = null
  /** Settles when the response has begun, or failed. */
  #opening: Promise<readonly Line[]> | null = null
  #exchange: CursorExchange | null = null
  #lines: Lines | null = null
  /** The pending line; it is kept when its wait is aborted. */
  #pendingLine: Promise<Line> | null = null
  #finishing: Promise<void> | null = null
  readonly #decoder: CursorDecoder
  /** All rows, from a server without cursors. */
  #allRows: readonly Row[] | null = null

  private constructor(stream: ServerStream, owner: object, statement: EncodedStatement, call: RowsCall) {
    this.#stream = stream
    this.owner = owner
    this.#statement = statement
    this.#call = call
    this.#inTransaction = isInTransaction(stream.state)
    const ignore = (): void => {}
    this.#queuedCall = {
      ...call,
      kind: 'cursor',
      statements: [statement],
      scope: this.#inTransaction ? 'transaction' : 'autocommit',
      prefix: [],
      isReadOnly: areReadOnly([statement], call.options),
      reader: this,
      isUnparsed: true,
      resolve: ignore,
      reject: ignore,
    }
    this.#request = new SqlRequest([this.#queuedCall])
    this.#decoder = new CursorDecoder(stream, this.#request, statement, call.options)
  }

  /** Queues a cursor and waits until no other call uses the stream. The cursor then has exclusive use of it until `release`. */
  static async open(
    stream: ServerStream,
    owner: object,
    statement: EncodedStatement,
    call: RowsCall,
  ): Promise<RowReader> {
    const reader = new RowReader(stream, owner, statement, call)
    await stream.enqueue(reader.#queuedCall)
    return reader
  }

  readonly newParseCall = newParseCall

  stop(endsStream: boolean, reason: unknown): void {
    if (endsStream) this.#endController.abort(reason)
    this.#stopController.abort(reason)
    void this.#finish()
      .catch((error: unknown) => this.fail(error))
      .then(() => this.release())
  }

  /** Lets the stream continue. */
  release(): void {
    if (this.#stream.state.cursor?.reader === this) this.#stream.dispatch({ type: 'cursorDone' })
  }

  /** Reports a failure to the stream. @returns the error that the loop over the rows throws */
  fail(error: unknown): unknown {
    if (!this.#isSent || this.#decoder.hasCallbackFailed || (this.#thrown && this.#thrown.error === error))
      return error
    // already reported when the cursor was stopped
    if (this.#failure && this.#failure.error === error) return this.#failure.reason
    const { http, state } = this.#stream
    const reason = this.#stream.toFailure(this.#loopErrorFor(error), isOutdated(state, http.writeLock))
    this.#failure = { error, reason }
    return reason
  }

  #loopErrorFor(error: unknown): unknown {
    let reason: unknown = error
    const reject = (callError: unknown): void => {
      reason = callError
    }
    // a failed statement, or a value that cannot be read, leaves the stream unchanged; a failed stream was already handled
    const isHandled = error instanceof SqlError || error instanceof RangeError || error instanceof StreamError
    if (this.#stream.state.cursor?.reader === this && !isHandled)
      this.#stream.dispatch({
        type: 'noResponse',
        calls: [{ ...this.#queuedCall, reject }],
        error,
        sending: this.#stream.lastSending,
      })
    if (this.#request.isReadOnly) return asNotApplied(reason)
    // outside of a transaction, closing the stream undoes nothing
    if (this.#inTransaction || !(reason instanceof StreamError)) return reason
    return new TransportError('CLOSED', reason.message, 'unknown', reason)
  }

  async *rows(): AsyncGenerator<Row, void, undefined> {
    const [stopController, endController] = [this.#stopController, this.#endController]
    const { signal } = this.#call.options
    // the user's signal ends the stream too
    const abortAll = (): void => {
      endController.abort(signal?.reason)
      stopController.abort(signal?.reason)
    }
    signal?.addEventListener('abort', abortAll)
    // an abort between two rows also ends the request
    const abort = (): void => this.#exchange?.abort()
    endController.signal.addEventListener('abort', abort)
    let isFinished = false
    let isYielding = false
    try {
      if (signal?.aborted) abortAll()
      stopController.signal.throwIfAborted()
      this.#opening = this.#open()
      const firstLines = [...(await this.#opening)]
      for (const row of this.#allRows ?? []) {
        stopController.signal.throwIfAborted()
        this.count += 1
        isYielding = true
        yield row
        isYielding = false
      }
      while (!this.#allRows) {
        stopController.signal.throwIfAborted()
        const line = firstLines.shift() ?? (await this.#next(stopController.signal))
        if (line.done) break
        const rows = this.#decoder.read(line.value)
        for (const row of rows instanceof Promise ? await rows : rows) {
          this.count += 1
          isYielding = true
          yield row
          isYielding = false
        }
      }
      isFinished = true
      if (!this.#allRows) this.#decoder.checkEnd(this.#inTransaction)
    } catch (error) {
      if (isYielding) this.#thrown = { error }
      // leaves the loop early
      if (this.#decoder.hasCallbackFailed || isYielding) throw error
      isFinished = true
      // the stream can continue
      if (stopController.signal.aborted || error instanceof RangeError)
        await this.#finish().catch((reason: unknown) => this.fail(reason))
      else this.#exchange?.abort()
      throw error
    } finally {
      try {
        if (!isFinished) await this.#leaveEarly()
      } finally {
        endController.signal.removeEventListener('abort', abort)
        signal?.removeEventListener('abort', abortAll)
      }
    }
  }

  async #leaveEarly(): Promise<void> {
    this.stoppedEarly = true
    this.#stream.rowids.forget()
    if (this.#allRows) return
    await this.#finish()
    if (this.#request.isReadOnly) return
    this.#endController.signal.throwIfAborted()
    this.#decoder.checkEnd(this.#inTransaction)
  }

  /** Ends the cursor early, so that the stream can continue. */
  #finish(): Promise<void> {
    this.#finishing ??= this.#finishNow()
    return this.#finishing
  }

  async #finishNow(): Promise<void> {
    // the baton in the response continues the stream
    await this.#opening
    // a write is read to its end: aborted in the middle, it would end the transaction
    const { signal } = this.#endController
    if (this.#request.isReadOnly || signal.aborted) {
      this.#exchange?.abort()
      return
    }
    try {
      for (let line = await this.#next(signal); !line.done; line = await this.#next(signal))
        if (!isRow(line.value)) await this.#decoder.read(line.value)
    } catch (error) {
      // the server would not continue the stream
      this.#exchange?.abort()
      throw error
    }
  }

  /** Sends the request. @returns the first lines of the response */
  async #open(): Promise<readonly Line[]> {
    const { address, http, state } = this.#stream
    if (!http.server.hasCursors) return await this.#readAll()
    const { baton } = state
    const request = this.#request
    const mayHoldLock = request.needsWriteLock || holdsLock(state)
    const deadline = http.deadline(this.#call.options.timeoutMs)
    const path = '/v3/cursor'
    let exchange: CursorExchange | undefined
    const result = await this.#untilAborted(this.#endController.signal, (signal) =>
      http.send<CursorStart, readonly Line[]>(
        {
          path,
          body: (index) => {
            // the time limit applies to each wait for the server
            deadline.restart()
            this.#stream.recordSend()
            return `{${baton ? `"baton":${JSON.stringify(baton)},` : ''}"batch":${request.encodeBatch(UNPROVEN_V3_GUARD, index)}}`
          },
          address,
          send: (transportRequest) => {
            exchange = openCursor(openObservedBody(http, transportRequest))
            return exchange
          },
          read: async ({ status, retryAfter, lines, first, text }) => {
            if (!lines)
              throw rejectionError(status, joinUrl(address, path), text, retryAfter, this.#statement.sql)
            this.#exchange = exchange ?? null
            this.#lines = lines
            const [head, ...remaining] = first
            // the baton continues the stream, even if no more rows are wanted
            if (head && !head.done) await this.#decoder.read(head.value)
            return remaining
          },
        },
        {
          deadline,
          signal,
          limiter: null,
          // a transaction already has its snapshot
          needsIndex: request.isFirst,
          policy: choosePolicy(request, baton, mayHoldLock),
          inTransaction: this.#inTransaction,
        },
      ),
    )
    if (!result.isOk && isUnsupportedPath(result.error)) {
      http.server.hasCursors = false
      return await this.#readAll()
    }
    this.#isSent = result.isOk || result.isSent
    if (!result.isOk && result.readLateResponse && exchange) this.#stream.awaitLate(this.#readBaton(exchange))
    if (!result.isOk && result.error instanceof SqlError && baton !== null) {
      // the server drops the stream of a statement that it cannot parse
      this.#stream.setBaton(null)
      this.#stream.lose({
        code: this.#inTransaction ? 'TRANSACTION_LOST' : 'STREAM_LOST',
        message: 'the server dropped the stream',
        cause: result.error,
      })
    }
    return unwrap(result)
  }

  /** Sends a request with a signal that is aborted with this one, or with the whole transaction. */
  #untilAborted<T>(
    signal: AbortSignal | undefined,
    send: (signal: AbortSignal | undefined) => Promise<T>,
  ): Promise<T> {
    return withSignals(this.#call.handleState?.signal, signal, send)
  }

  /** Executes the statement and reads its whole result, from a server without cursors. */
  async #readAll(): Promise<readonly Line[]> {
    const { http, rowids } = this.#stream
    const call = this.#queuedCall
    this.#isSent = true
    const {
      request,
      result: [result],
    } = await this.#untilAborted(call.options.signal, async (signal) => {
      const options = { ...call.options, signal }
      const request = new SqlRequest([{ ...call, options, kind: 'statements' }])
      return { request, result: unwrap(await this.#stream.send(request, false)) }
    })
    const { outcomes: [outcome] = [] } = request.read(result, { intMode: http.config.intMode, rowids })
    if (outcome?.loss) throw this.#stream.lose(outcome.loss)
    if (!outcome?.results) throw outcome?.error
    this.#stream.dispatch({ type: 'cursorHasRun' })
    this.#allRows = outcome.results[0]?.rows ?? []
    this.#decoder.reportColumns(outcome.results[0]?.columns ?? [])
    return []
  }

  /** Reads the baton of a cursor that was aborted before its rows arrived, so that the stream can be closed. */
  async #readBaton(exchange: CursorExchange): Promise<void> {
    const [line] = (await exchange.head).first
    exchange.abort()
    if (line?.done !== false) throw new ProtocolError('the response has no baton')
    await this.#decoder.read(line.value)
  }

  /** Waits for the next line, at most for the request timeout. */
  async #next(signal: AbortSignal): Promise<Line> {
    const lines = this.#lines
    if (!lines) return { done: true, value: undefined }
    const { http } = this.#stream
    const { timeoutMs = http.config.requestTimeoutMs } = this.#call.options
    const deadline = { remainingMs: timeoutMs, timeoutMs }
    const next = (): Promise<Line> => (this.#pendingLine ??= lines.next())
    const line = await http.lifetime.until(next, { deadline, signal, mayHaveRun: () => true })
    this.#pendingLine = null
    return line
  }
}

/** Returns a call that sends the control statements of a cursor, and has its statement parsed. */
function newParseCall(call: CursorCall): ParseCall {
  // a server that ignores conditions runs the statement: outside of a transaction, in one that is rolled back
  const [scope, before, last] =
    call.scope === 'transaction'
      ? (['transaction', call.prefix, PROBE] as const)
      : (['chain', [beginStatement('deferred')], ROLLBACK] as const)
  return {
    ...call,
    kind: 'parse',
    scope,
    prefix: before,
    statements: [last],
    cursorCall: call,
    // the request keeps the deadline; an aborted cursor leaves the queue, and the transaction continues unless it is aborted, too
    options: { signal: call.handleState?.signal },
    isReadOnly: true,
  }
}
