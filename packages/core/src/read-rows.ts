import { openBody } from '#transport'
import { atCaller } from './at-caller.ts'
import { checkOptions, STATEMENT_OPTIONS } from './check-options.ts'
import type { Client } from './client.ts'
import { withIndex } from './codec/batch.ts'
import { type ArrayRow, type ObjectRow, rowDecoder } from './codec/result.ts'
import {
  type EncodedStatement,
  encodeStatement,
  type InArgs,
  type InStatement,
  isReadOnly,
  refuseControl,
} from './codec/statement.ts'
import { HttpError, ProtocolError, SqlError } from './errors.ts'
import { anySignal } from './http/any-signal.ts'
import type { Deadline } from './http/deadline.ts'
import type { SendOptions } from './http/http.ts'
import { sendWithIndex } from './http/replica-read.ts'
import { ERROR_TEXT_LENGTH } from './limits.ts'
import type { StatementOptions } from './options.ts'
import { type CursorLease, lendToCursor } from './stream/cursor-lease.ts'
import { Stream, stateOf } from './stream/stream.ts'
import { streamOf, Transaction } from './transaction.ts'
import { timeoutError } from './transport/failure.ts'
import type { Exchange, TransportBody } from './transport/transport.ts'
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
  const options = { ...given }
  const { signal } = options
  signal?.throwIfAborted()
  const { stream, deadline } =
    db instanceof Transaction
      ? await streamOf(db, options)
      : { stream: stateOf(db instanceof Stream ? db : db.openStream()), deadline: null }
  const { connection } = stream
  const { events, lifetime } = connection.http
  const lease = await lendToCursor(stream, {
    owner: db,
    deadline: deadline ?? connection.http.deadline(options.timeoutMs),
    signal,
  })
  const isOwn = !(db instanceof Stream) && deadline === null
  if (isOwn) lifetime.begin()
  const report = events.begin([encoded], lease.transaction)
  const reader = new RowReader(lease, encoded, options)
  try {
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
    if (isOwn) {
      await stream.close()
      lifetime.end()
    }
  }
}

type Row = ObjectRow | ArrayRow
type Line = IteratorResult<string, void>

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
  readonly #signal: AbortSignal
  #exchange: Exchange<TransportBody> | null = null
  readonly #abort = (): void => this.#exchange?.abort()
  #lines: AsyncGenerator<string, void, undefined> | null = null
  #decode: ((cells: readonly WireValue[]) => Row) | null = null
  #isDone = false

  constructor(lease: CursorLease, statement: EncodedStatement, options: StatementOptions) {
    this.#lease = lease
    this.#statement = statement
    this.#options = options
    this.#deadline = lease.connection.http.deadline(options.timeoutMs)
    this.#signal = options.signal ? anySignal([options.signal, lease.signal]) : lease.signal
    // also while nobody waits for a row
    this.#signal.addEventListener('abort', this.#abort)
  }

  async *rows(): AsyncGenerator<Row, void, undefined> {
    let isOver = false
    try {
      const first = await this.#open()
      for (;;) {
        const line = first.shift() ?? (await this.#next(this.#signal))
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
      this.#exchange?.abort()
      throw error
    } finally {
      try {
        if (!isOver) await this.#leave()
      } finally {
        this.#signal.removeEventListener('abort', this.#abort)
      }
    }
  }

  get #isRead(): boolean {
    return this.#options.readOnly ?? isReadOnly(this.#statement.sql)
  }

  /** The loop was left. What changes something must not be ended by chance in the middle of it. */
  async #leave(): Promise<void> {
    this.isLeft = true
    if (this.#isRead) {
      await this.#lines?.return()
      this.#exchange?.abort()
      return
    }
    for (let line = await this.#next(this.#signal); !line.done; line = await this.#next(this.#signal))
      this.#read(line.value)
    this.#checkEnd()
  }

  /** Sends the request. @returns the first lines of the answer */
  async #open(): Promise<Line[]> {
    const { connection, inTransaction, holdsLock } = this.#lease
    const { http, baton, address } = connection
    const condition = inTransaction ? ',"condition":{"type":"not","cond":{"type":"is_autocommit"}}' : ''
    const batch = `{"steps":[{"stmt":${this.#statement.json}${condition}}]}`
    const isRepeatable = baton === null && this.#isRead
    const send = (index: string | null, options: SendOptions): Promise<Line[]> => {
      const body = `{${baton ? `"baton":${JSON.stringify(baton)},` : ''}"batch":${withIndex(batch, index)}}`
      // a replica that waits for the index gives a baton, and then nothing: whoever gives the request up ends that wait, too
      const given = new AbortController()
      const signal = anySignal([this.#signal, given.signal])
      const onSend: SendOptions['onSend'] = (giveUp) =>
        options.onSend?.((reason) => {
          given.abort(reason)
          giveUp(reason)
        })
      return http.send<TransportBody, Line[]>(
        {
          method: 'POST',
          path: '/v3/cursor',
          body,
          address,
          send: (request) => {
            this.#exchange = openBody(http.transport, request)
            return this.#exchange
          },
          read: async ({ status, retryAfter, parts }) => {
            this.#lines = status === 200 ? linesOf(parts) : null
            if (!this.#lines)
              throw refusal(status, address.origin, await textOf(parts), retryAfter, this.#statement.sql)
            return [await this.#next(signal), await this.#next(signal)]
          },
        },
        // the time is for each silence
        {
          ...options,
          onSend,
          deadline: http.deadline(this.#deadline.timeoutMs),
          lane: null,
          isRepeatable: isRepeatable && !holdsLock,
        },
      )
    }
    const call = { deadline: this.#deadline, signal: this.#signal }
    // a transaction has its snapshot already
    return await (inTransaction ? send(null, call) : sendWithIndex(http, isRepeatable, call, send))
  }

  /** Waits for the next line, no longer than the server may be silent. */
  async #next(signal: AbortSignal): Promise<Line> {
    const { http, address } = this.#lease.connection
    const { timeoutMs } = this.#deadline
    const waiter = http.lifetime.wait<Line>(
      { ms: timeoutMs, signal, late: () => timeoutError(timeoutMs, address.origin, true) },
      () => 'unknown',
    )
    this.#lines?.next().then(waiter.resolve, waiter.reject)
    try {
      return await waiter.promise
    } catch (error) {
      this.#exchange?.abort()
      throw error
    }
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
      const isStolen = error.code === 'TRANSACTION_TIMEOUT'
      throw isStolen ? markLost('TRANSACTION_EXPIRED', error.message, error) : error
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
