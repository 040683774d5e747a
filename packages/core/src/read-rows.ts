import { openBody } from '#transport'
import { atCaller } from './at-caller.ts'
import { checkOptions, STATEMENT_OPTIONS } from './check-options.ts'
import type { Client } from './client.ts'
import { type ArrayRow, type ObjectRow, rowDecoder } from './codec/result.ts'
import {
  type EncodedStatement,
  encodeStatement,
  type InArgs,
  type InStatement,
  refuseControl,
  refuseSavepoint,
} from './codec/statement.ts'
import { HttpError, ProtocolError, SqlError } from './errors.ts'
import type { Deadline } from './http/deadline.ts'
import type { SendOptions } from './http/http.ts'
import { sendWithIndex } from './http/replica-read.ts'
import { ERROR_TEXT_LENGTH } from './limits.ts'
import type { StatementOptions } from './options.ts'
import { type CursorLease, lendToCursor } from './stream/cursor-lease.ts'
import { stolen } from './stream/sql-request.ts'
import { Stream, stateOf } from './stream/stream.ts'
import type { StreamState } from './stream/stream-state.ts'
import { actOn, Transaction } from './transaction.ts'
import { timeoutError } from './transport/failure.ts'
import type { Exchange, TransportBody, TransportHead } from './transport/transport.ts'
import type { WireColumn, WireError, WireValue } from './wire.ts'

type CursorEntry =
  | { readonly baton: string | null }
  | { readonly type: 'step_begin'; readonly step: number; readonly cols: readonly WireColumn[] }
  | { readonly type: 'row'; readonly row: readonly WireValue[] }
  | { readonly type: 'step_end' }
  | { readonly type: 'step_error'; readonly step: number; readonly error: WireError }
  | { readonly type: 'error'; readonly error: WireError }
  | { readonly type: 'replication_index'; readonly replication_index: number | string | null }

/**
 * Reads the rows of one statement as they come, for results that are too large to hold: no more is fetched than the loop
 * takes, and leaving it early ends the statement, but one that changes something: that is read to its end. Costs two
 * requests, the rows and the end of the stream; inside a transaction one. `timeoutMs` is the longest silence.
 *
 * ```ts
 * for await (const row of readRows(db, 'select * from measurement')) …
 * ```
 * @throws SqlError when the database refuses the statement; HttpError 404 from a server without `/v3/cursor`
 */
export function readRows(
  db: Client | Transaction | Stream,
  statement: InStatement,
  args: InArgs | undefined,
  options: StatementOptions & { readonly rowMode: 'array' },
): AsyncGenerator<ArrayRow, void, undefined>
export function readRows<Row = ObjectRow>(
  db: Client | Transaction | Stream,
  statement: InStatement,
  args?: InArgs,
  options?: StatementOptions,
): AsyncGenerator<Row, void, undefined>
export async function* readRows(
  db: Client | Transaction | Stream,
  statement: InStatement,
  args?: InArgs,
  given: StatementOptions = {},
): AsyncGenerator<unknown, void, undefined> {
  checkOptions(given, STATEMENT_OPTIONS)
  const encoded = encodeStatement(statement, args)
  refuseControl(encoded.sql)
  const isInside = db instanceof Transaction || (db instanceof Stream && (db.inTransaction || !db.isOpen))
  if (!isInside) refuseSavepoint(encoded.sql)
  const options = { ...given }
  options.signal?.throwIfAborted()
  const isOwn = !(db instanceof Stream || db instanceof Transaction)
  const own = isOwn ? stateOf(db.openStream()) : null
  const lease =
    db instanceof Transaction
      ? await actOn(db, options, (stream, handle) =>
          lendToCursor(stream, { owner: db, statement: encoded, options, ...handle }),
        )
      : await lendToStream(own ?? stateOf(db as Stream), db, encoded, options)
  const { events, lifetime } = lease.connection.http
  const report = events.begin([encoded], lease.transaction)
  const reader = new RowReader(lease, encoded, options)
  let isBegun = false
  try {
    if (isOwn) lifetime.begin()
    isBegun = isOwn
    yield* reader.rows()
    report?.end({ rows: reader.count, rowsRead: 0, rowsWritten: 0 })
  } catch (error) {
    report?.fail(error)
    lease.fail(error)
    throw atCaller(error, [encoded])
  } finally {
    // also when the loop over the rows was left early
    if (reader.isLeft) report?.end({ rows: reader.count, rowsRead: 0, rowsWritten: 0 })
    lease.giveBack()
    await own?.close()
    if (isBegun) lifetime.end()
  }
}

function lendToStream(
  stream: StreamState,
  owner: object,
  statement: EncodedStatement,
  options: StatementOptions,
): Promise<CursorLease> {
  const deadline = stream.connection.http.deadline(options.timeoutMs)
  return lendToCursor(stream, { owner, statement, options, deadline })
}

type Row = ObjectRow | ArrayRow
type Line = IteratorResult<string, void>
type Lines = AsyncGenerator<string, void, undefined>

/** The beginning of an answer: its first lines, or the text of a refusal. */
interface Opening extends TransportHead {
  readonly lines: Lines | null
  readonly first: readonly Line[]
  readonly text: string
}

/** A cursor request, whose answer is there with two lines: a replica that waits for an index sends the first, and then nothing. */
interface CursorExchange extends Exchange<Opening> {
  /** The first line alone, which has the baton. */
  readonly head: Promise<Opening>
}

/** Reads the answer to one cursor request. */
class RowReader {
  /** Rows that were given. */
  count = 0
  /** The loop over the rows was left before their end. */
  isLeft = false
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
            exchange = opening(openBody(http.transport, head))
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

function opening(exchange: Exchange<TransportBody>): CursorExchange {
  const begin = async ({ parts, ...head }: TransportBody): Promise<Opening> => {
    if (head.status !== 200) return { ...head, lines: null, first: [], text: await textOf(parts) }
    const lines = linesOf(parts)
    return { ...head, lines, first: [await lines.next()], text: '' }
  }
  const head = exchange.answer.then(begin)
  const answer = head.then(async (begun) =>
    begun.lines ? { ...begun, first: [...begun.first, await begun.lines.next()] } : begun,
  )
  return {
    head,
    answer,
    get isSent() {
      return exchange.isSent
    },
    abort: () => exchange.abort(),
  }
}

function refusal(
  status: number,
  origin: string,
  text: string,
  retryAfter: string | null | undefined,
  sql: string,
): Error {
  // a statement that does not parse is not an entry but a failure of the whole
  const message = /(SQL string [^"]*[^"`])/.exec(text)?.[1]
  if (status === 500 && message) return new SqlError({ message, code: 'SQL_PARSE_ERROR' }, sql)
  return new HttpError(status, origin, text, retryAfter)
}

async function textOf(parts: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const part of parts)
    if (text.length < ERROR_TEXT_LENGTH) text += decoder.decode(part, { stream: true })
  return text
}

async function* linesOf(parts: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder()
  // a row may come in many parts, and should not be searched again for each
  let begun: string[] = []
  for await (const part of parts) {
    const [first = '', ...lines] = decoder.decode(part, { stream: true }).split('\n')
    begun.push(first)
    if (lines.length === 0) continue
    yield begun.join('')
    begun = [lines.pop() as string]
    yield* lines
  }
  const rest = begun.join('')
  if (rest !== '') yield rest
}
