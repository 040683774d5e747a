import { beginStatement, type TransactionMode } from './codec/batch.ts'
import { CLOSE, decodePipeline, pipelineBody, replicationIndexOf } from './codec/pipeline.ts'
import type { ArrayRow, ObjectRow, ResultSet } from './codec/result.ts'
import {
  type EncodedStatement,
  encodeBatch,
  encodeStatement,
  type InArgs,
  type InStatement,
  refuseControl,
} from './codec/statement.ts'
import { type ClientConfig, checkTimeout, resolveConfig } from './config.ts'
import { HttpError } from './errors.ts'
import { Http } from './http/http.ts'
import { sendWithIndex } from './http/replica-read.ts'
import { backoffMs, isPassing } from './http/retry.ts'
import type { BatchOptions, CallOptions, Executor, StatementOptions } from './options.ts'
import { type Entry, type Results, SqlRequest } from './stream/sql-request.ts'
import { Stream } from './stream/stream.ts'
import { StreamConnection } from './stream/stream-connection.ts'
import { Transaction } from './transaction.ts'

/** Settings of a transaction. */
export interface TransactionOptions {
  /** @default 'immediate' */
  readonly mode?: TransactionMode | undefined
  /**
   * How often the callback is run again when the transaction came to nothing for a reason that may not last: SQLITE_BUSY,
   * a transaction that was lost or expired, HTTP 429. Never after a commit that may have happened.
   * @default 0
   */
  readonly retry?: number | undefined
}

/** Settings of a batch that is a transaction of its own. */
export interface AtomicBatchOptions extends BatchOptions {
  /**
   * `off` lets statements break foreign keys, and drop a table without its rows' dependents, as rebuilding one needs it.
   * Whether all is well in the end is yours to check: `pragma foreign_key_check`.
   * @default 'on'
   */
  readonly foreignKeys?: 'on' | 'off' | undefined
}

/**
 * A database reached over HTTP. Safe to share: calls run side by side, each statement and batch in one request of its
 * own. Whoever makes a client closes it.
 */
export class Client implements Executor, AsyncDisposable {
  readonly #http: Http

  constructor(config: ClientConfig) {
    this.#http = new Http(resolveConfig(config))
  }

  /**
   * Newest state of the database that this client has written or seen, for `minReplicationIndex` of a client in another
   * process, so that it reads there what was written here; null before the first answer.
   */
  get replicationIndex(): string | null {
    return this.#http.server.replicationIndex
  }

  execute(
    statement: InStatement,
    args: InArgs | undefined,
    options: StatementOptions & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>>
  execute<Row = ObjectRow>(
    statement: InStatement,
    args?: InArgs,
    options?: StatementOptions,
  ): Promise<ResultSet<Row>>
  async execute(
    statement: InStatement,
    args?: InArgs,
    options: StatementOptions = {},
  ): Promise<ResultSet<ObjectRow | ArrayRow>> {
    const encoded = encodeStatement(statement, args)
    refuseControl(encoded.sql)
    return (await this.#request([encoded], 'alone', [], options))[0] as ResultSet
  }

  /**
   * Runs statements as one transaction in one request: all of them take effect, or none. No statements, no request.
   * @throws SqlError with `statementIndex` and the `results` up to it, which are rolled back
   */
  batch(
    statements: readonly InStatement[],
    options: AtomicBatchOptions & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>[]>
  batch<Row = ObjectRow>(
    statements: readonly InStatement[],
    options?: AtomicBatchOptions,
  ): Promise<ResultSet<Row>[]>
  async batch(
    statements: readonly InStatement[],
    options: AtomicBatchOptions = {},
  ): Promise<ResultSet<ObjectRow | ArrayRow>[]> {
    const encoded = encodeBatch(statements)
    if (encoded.length === 0) return []
    const begin = beginStatement(options.mode)
    // inside a transaction the pragma would do nothing
    const lead = options.foreignKeys === 'off' ? ['PRAGMA foreign_keys = off', begin] : [begin]
    return await this.#request(encoded, 'atomic', lead, options)
  }

  /**
   * Runs a callback as a transaction: committed when it returns, rolled back when it throws. BEGIN travels with the
   * first statement, COMMIT with the end of the stream; a transaction without statements sends nothing.
   * @throws the callback's own error; StreamError when the server ended the transaction before the commit
   */
  async transaction<T>(
    callback: (tx: Transaction) => Promise<T> | T,
    options: TransactionOptions = {},
  ): Promise<T> {
    const { gate, events } = this.#http
    const { mode, retry = 0 } = options
    gate.begin()
    try {
      for (let attempt = 0; ; attempt++) {
        const stream = this.openStream()
        stream.begin(mode)
        try {
          return await Transaction.run(stream, callback)
        } catch (error) {
          // to a client that is being closed another attempt would be a new transaction
          if (!(attempt < retry) || gate.isClosed || !isPassing(error)) throw error
          const delayMs = backoffMs(attempt)
          if (events.isWatched) events.emit({ type: 'retry', attempt: attempt + 1, delayMs, error })
          await gate.rest(delayMs)
        }
      }
    } finally {
      gate.end()
    }
  }

  /** Opens a stream, for adapters. Sends nothing; whoever opens it closes it. */
  openStream(): Stream {
    return new Stream(new StreamConnection(this.#http))
  }

  /** Whether the server says it is well. @throws TransportError when there is no answer */
  async health(options?: CallOptions): Promise<boolean> {
    try {
      await this.#http.get('/health', options)
      return true
    } catch (error) {
      if (error instanceof HttpError) return false
      throw error
    }
  }

  /** Name and version of the server, such as `sqld 0.24.32 (40c272de 2025-02-14)`. */
  async version(options?: CallOptions): Promise<string> {
    return (await this.#http.get('/version', options)).trim()
  }

  /**
   * Ends what is under way and frees the connections. Of several calls the one with the least patience counts.
   * @param options `drainMs`: time in which calls and transactions under way may finish, while new ones are refused;
   * Infinity = as long as they take
   */
  async close({ drainMs = 0 }: { readonly drainMs?: number | undefined } = {}): Promise<void> {
    if (drainMs !== 0) checkTimeout('drainMs', drainMs)
    await this.#http.close(drainMs)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Everything in one HTTP request, on a stream that ends with it. */
  #request(
    statements: EncodedStatement[],
    place: Entry['place'],
    lead: string[],
    options: StatementOptions,
  ): Promise<Results> {
    const http = this.#http
    return http.events.query(
      statements,
      false,
      () =>
        new Promise((resolve, reject) => {
          const request = new SqlRequest([
            { statements, place, lead, shares: false, options, resolve, reject },
          ])
          const { isRead } = request
          sendWithIndex(http, { ...options, isRead }, (index, callOptions) =>
            http.post('/v2/pipeline', pipelineBody([request.encode(false, index), CLOSE]), {
              ...callOptions,
              isRepeatable: isRead,
              isRead: isRead && !lead.includes(beginStatement()),
            }),
          )
            .then((text) => {
              const response = decodePipeline(text)
              http.server.sawIndex(replicationIndexOf(response))
              request.settle(response.results[0], http.config.intMode)
            })
            .catch(reject)
        }),
    )
  }
}

/** Makes a client. Sends nothing before the first call. @throws TypeError naming the option that is wrong */
export function createClient(config: ClientConfig): Client {
  return new Client(config)
}
