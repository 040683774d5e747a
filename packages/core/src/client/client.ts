import { BATCH_OPTIONS, checkOption, checkOptions, TIME, TRANSACTION_OPTIONS } from '../base/check-options.ts'
import { beginStatement, FOREIGN_KEYS_OFF, type TransactionMode } from '../codec/control.ts'
import { type EncodedStatement, refuseControl, refuseSavepoint } from '../codec/statement.ts'
import type { IntMode } from '../codec/value.ts'
import { type ClientConfig, resolveConfig } from '../config.ts'
import { Http } from '../http/http.ts'
import { backoffMs, isTransient } from '../http/retry.ts'
import type { BatchOptions } from '../options.ts'
import type { Coalescer } from '../request/coalescer.ts'
import { areReadOnly, batchPrefix, type QueuedCall, type Results } from '../request/queued-call.ts'
import { sendStateless } from '../request/send-stateless.ts'
import { SqlRequest } from '../request/sql-request.ts'
import { canShareConnection } from '../sql/statement-kind.ts'
import { ServerStream } from '../stream/server-stream.ts'
import { SqlExecutor } from './sql-executor.ts'
import { checkCallback, Transaction } from './transaction.ts'

/** Settings of a transaction. */
export interface TransactionOptions {
  /** @default 'immediate' */
  readonly mode?: TransactionMode | undefined
  /**
   * How often the callback is run again after the transaction failed for a transient reason and kept nothing: SQLITE_BUSY,
   * a transaction that was lost or expired, HTTP 429. Never after a commit that may have taken effect.
   * @default 0
   */
  readonly retry?: number | undefined
}

/** Settings of a batch that is a transaction of its own. */
export interface AtomicBatchOptions extends BatchOptions {
  /**
   * `off` disables foreign key enforcement, which rebuilding a table needs. Check the result yourself:
   * `pragma foreign_key_check`.
   * @default 'on'
   */
  readonly foreignKeys?: 'on' | 'off' | undefined
}

/** Returns what sends the requests of a client. */
export let httpOf: (db: Client) => Http

/** Runs statements of a call that takes several requests, also while the client is being closed. */
export let runWithinCall: (
  db: Client,
  statements: EncodedStatement[],
  scope: QueuedCall['scope'],
  options: AtomicBatchOptions,
) => Promise<Results>

/**
 * A client of one database over HTTP. Safe to share: calls run concurrently, each statement and batch in a request of its own.
 * Close it when you are done.
 */
export class Client extends SqlExecutor<AtomicBatchOptions> implements AsyncDisposable {
  readonly #http: Http
  readonly #coalescer: Coalescer | null

  constructor(config: ClientConfig) {
    super(
      (statements, scope, options) => this.#run(statements, scope, options),
      { ...BATCH_OPTIONS, foreignKeys: "'on' or 'off'" },
      (statement) => {
        refuseControl(statement)
        refuseSavepoint(statement)
      },
    )
    this.#http = new Http(resolveConfig(config))
    const { coalesce } = this.#http.config
    this.#coalescer = coalesce ? (coalesce as (http: Http) => Coalescer)(this.#http) : null
  }

  static {
    httpOf = (db) => db.#http
    runWithinCall = (db, statements, scope, options) => db.#run(statements, scope, options, true)
  }

  /** How 64-bit integers are returned, as configured. */
  get intMode(): IntMode {
    return this.#http.config.intMode
  }

  /**
   * Newest replication index that this client has written or seen. Passed as `minReplicationIndex` to a client in another
   * process, it makes that client read what this one wrote. Null before the first response.
   */
  get replicationIndex(): string | null {
    return this.#http.replica.value
  }

  /**
   * Runs a callback in a transaction, which is committed when it returns and rolled back when it throws. BEGIN is sent with
   * the first statement, COMMIT with the end of the stream; a transaction without statements sends nothing. The write
   * transactions of one client run one after the other.
   * @throws the callback's own error; StreamError if the server ended the transaction before the commit
   */
  async transaction<T>(
    callback: (tx: Transaction) => Promise<T> | T,
    options: TransactionOptions = {},
  ): Promise<T> {
    checkCallback(callback)
    checkOptions(options, TRANSACTION_OPTIONS)
    const { lifetime, events } = this.#http
    const { mode, retry = 0 } = options
    lifetime.begin()
    try {
      for (let attempt = 0; ; attempt++) {
        const stream = new ServerStream(this.#http, true)
        stream.transaction.begin(beginStatement(mode))
        try {
          return await Transaction.run(stream, callback)
        } catch (error) {
          // a client that is being closed accepts no new transaction
          if (!(attempt < retry) || lifetime.isClosed || !isTransient(error)) throw error
          const delayMs = backoffMs(attempt)
          events.emit({ type: 'retry', attempt: attempt + 1, delayMs, error })
          await lifetime.sleep(delayMs)
        }
      }
    } finally {
      lifetime.end()
    }
  }

  /**
   * Closes the client and its connections. Pending calls reject at once; streams that may hold the write lock are closed first,
   * which takes at most 2 s. If called several times, the shortest `drainMs` applies.
   * @param options `drainMs`: time in ms in which pending calls and transactions may finish, while new ones are rejected;
   * Infinity = no limit
   */
  async close(options: { readonly drainMs?: number | undefined } = {}): Promise<void> {
    checkOptions(options, { drainMs: 'number' })
    const { drainMs = 0 } = options
    if (drainMs !== 0) checkOption('drainMs', drainMs, TIME)
    await this.#http.close(drainMs)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** Runs statements in one request, on a stream that ends with it. */
  #run(
    statements: EncodedStatement[],
    scope: QueuedCall['scope'],
    options: AtomicBatchOptions,
    hasBegun = false,
  ): Promise<Results> {
    const http = this.#http
    if (statements.length === 0) return Promise.resolve([])
    const isReadOnly = areReadOnly(statements, options)
    let prefix = scope === 'atomic' ? batchPrefix(isReadOnly, options) : []
    // inside a transaction the pragma would do nothing
    if (options.foreignKeys === 'off') prefix = [FOREIGN_KEYS_OFF, ...prefix]
    return http.events.query(
      statements,
      null,
      () =>
        new Promise((resolve, reject) => {
          const call = {
            statements,
            scope,
            prefix,
            isReadOnly,
            canCoalesce: false,
            options,
            deadline: http.deadline(options.timeoutMs),
            resolve,
            reject,
          }
          this.#send(call, hasBegun).catch(reject)
        }),
    )
  }

  async #send(call: QueuedCall, hasBegun: boolean): Promise<void> {
    const http = this.#http
    const { deadline, options, scope, statements } = call
    http.lifetime.begin(hasBegun)
    try {
      const canShare = scope === 'autocommit' && canShareConnection((statements[0] as EncodedStatement).kind)
      if (this.#coalescer && canShare) await this.#coalescer.send(call)
      else await sendStateless(http, [new SqlRequest([call])], { deadline, signal: options.signal })
    } finally {
      http.lifetime.end()
    }
  }
}

/** Creates a client. Sends nothing before the first call. @throws TypeError naming the invalid option */
export function createClient(config: ClientConfig): Client {
  return new Client(config)
}
