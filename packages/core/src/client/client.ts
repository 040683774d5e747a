import { CALL_OPTIONS, checkOptions, describeType, NON_NEGATIVE_INTEGER, TIME } from '@batonsql/options'
import { TransportError } from '../base/errors.ts'
import type { JoinedSignals } from '../base/join-signals.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { beginStatement, TRANSACTION_MODES, type TransactionMode } from '../codec/control.ts'
import { rejectControl, rejectSavepoint } from '../codec/statement.ts'
import type { IntMode } from '../codec/value.ts'
import { type ClientConfig, resolveConfig } from '../config.ts'
import { Http, joinUrl } from '../http/http.ts'
import { backoffMs, isTransient } from '../http/retry.ts'
import { type AtomicBatchOptions, BATCH_OPTIONS, type CallOptions } from '../options.ts'
import type { Coalescer } from '../request/coalescer.ts'
import { ServerStream } from '../stream/server-stream.ts'
import { run } from './run.ts'
import { SqlExecutor } from './sql-executor.ts'
import { checkCallback, Transaction } from './transaction.ts'

/**
 * Settings of a transaction. When its signal is aborted or its time limit is reached, the transaction is rolled back and rejects at
 * once, even while its callback is running. If its COMMIT is in flight then, it is unknown whether the transaction was applied.
 */
export interface TransactionOptions extends CallOptions {
  /** Time limit of the transaction with its retries, in ms. @default none */
  readonly timeoutMs?: number | undefined
  /** @default 'immediate' */
  readonly mode?: TransactionMode | undefined
  /**
   * How many times the callback is run again if the transaction failed for a transient reason and kept nothing: SQLITE_BUSY,
   * a transaction that was lost or expired, HTTP 429. Never after a commit that may have been applied.
   * @default 0
   */
  readonly maxRetries?: number | undefined
}

const TRANSACTION_OPTIONS = {
  ...CALL_OPTIONS,
  mode: TRANSACTION_MODES,
  maxRetries: NON_NEGATIVE_INTEGER,
} as const

const CLOSE_OPTIONS = {
  drainMs: { text: `${TIME.text}, or 0`, accepts: (value: unknown) => value === 0 || TIME.accepts(value) },
} as const

/**
 * Returns the signal of a whole transaction: aborted when the signal of the options is, when their time limit is reached, or when `close`
 * aborts pending calls, with the error that the transaction then rejects with. Null if the options have neither.
 */
function limitTransaction(http: Http, { signal, timeoutMs }: CallOptions): JoinedSignals | null {
  if (!signal && !timeoutMs) return null
  const controller = new AbortController()
  const deadline = timeoutMs ? http.deadline(timeoutMs) : undefined
  // if the COMMIT is in flight, the stream rejects with a copy whose outcome is `unknown`
  const onTimeout = (): Error =>
    new TransportError('TIMEOUT', `the transaction took longer than ${timeoutMs} ms`, 'not_applied')
  signal?.throwIfAborted()
  // a wait of the lifetime, which `close` ends too
  const waiter = http.lifetime.wait({ deadline, signal, onTimeout })
  waiter.promise.catch((reason: unknown) => controller.abort(reason))
  return { signal: controller.signal, stop: () => waiter.resolve() }
}

const httpByClient = new WeakMap<Client, Http>()

/** Returns what sends a client's requests. @throws TypeError for anything else, such as a client of another copy of this package */
export function getHttp(db: Client): Http {
  const http = httpByClient.get(db)
  if (http) return http
  throw new TypeError(
    `expected a client from createClient() of this copy of @batonsql/core, not ${describeType(db)}`,
  )
}

/** For adapters: checks that a value is a client. @throws TypeError */
export const checkClient = (client: Client): void => void getHttp(client)

/**
 * A client for one database over HTTP. Safe to share: calls run concurrently, each statement and batch in its own request. With the
 * option `coalesce`, statements share requests. Close it when you are done.
 */
export class Client extends SqlExecutor<AtomicBatchOptions> implements AsyncDisposable {
  constructor(config: ClientConfig) {
    const http = new Http(resolveConfig(config))
    const { coalesce } = http.config
    // the type of the option names no internal class
    const context = coalesce ? { coalescer: (coalesce as (http: Http) => Coalescer)(http) } : {}
    super(
      (statements, scope, options) => run(http, statements, scope, options, context),
      { ...BATCH_OPTIONS, foreignKeys: ['on', 'off'] },
      (statement) => {
        rejectControl(statement)
        rejectSavepoint(statement)
      },
    )
    httpByClient.set(this, http)
  }

  /** How 64-bit integers are returned, as configured. */
  get intMode(): IntMode {
    return getHttp(this).config.intMode
  }

  /** Address of the database, without a token. */
  get url(): string {
    return joinUrl(getHttp(this).config.address, '')
  }

  /** Time limit of a call in ms, as configured. */
  get requestTimeoutMs(): number {
    return getHttp(this).config.requestTimeoutMs
  }

  /**
   * The newest replication index that this client has written or seen; before the first response, its `minReplicationIndex`, or null
   * without one. Passed as `minReplicationIndex` to a client in another process, it makes that client read what this one wrote. It
   * decreases only if the primary itself has a lower one, as after a restore.
   */
  get replicationIndex(): string | null {
    return getHttp(this).replica.value
  }

  /**
   * Runs a callback in a transaction, which is committed when it returns and rolled back when it throws. BEGIN is sent with
   * the first statement, COMMIT in the request that closes the stream; a transaction without statements sends nothing. If the client
   * has two write transactions open, the first statement of the next one waits until one of them has ended.
   * @throws the callback's own error; StreamError if the server ended the transaction before the commit; the signal's reason;
   * TransportError `TIMEOUT`
   */
  async transaction<T>(
    callback: (tx: Transaction) => Promise<T> | T,
    options: TransactionOptions = {},
  ): Promise<T> {
    checkCallback(callback)
    checkOptions(options, TRANSACTION_OPTIONS)
    const http = getHttp(this)
    const { lifetime, events } = http
    const { mode, maxRetries = 0 } = options
    lifetime.begin()
    let limit: JoinedSignals | null = null
    try {
      limit = limitTransaction(http, options)
      for (let attempt = 0; ; attempt++) {
        // `true`: not counted as a call of its own, because `lifetime.begin()` counts the whole transaction, for which `close` waits
        const stream = new ServerStream(http, true)
        stream.begin(beginStatement(mode))
        try {
          return await Transaction.run(stream, callback, limit?.signal)
        } catch (error) {
          // a client that is being closed accepts no new transaction
          if (attempt >= maxRetries || lifetime.isClosed || !isTransient(error)) throw error
          const delayMs = backoffMs(attempt)
          events.emit({ type: 'retry', attempt: attempt + 1, delayMs, error })
          await lifetime.sleep(delayMs, limit?.signal)
        }
      }
    } catch (error) {
      // without a caller in its stack: a timer, or `close`, has created it
      const isFromLimit = error === limit?.signal.reason && !options.signal?.aborted
      throw isFromLimit ? withCallerStack(error) : error
    } finally {
      limit?.stop()
      lifetime.end()
    }
  }

  /**
   * Closes the client and its connections. Pending calls reject at once; open streams, which may hold the write lock, are closed
   * first, which takes at most 2 s. If called several times, the shortest `drainMs` applies.
   * @param options `drainMs`: time in ms in which pending calls and transactions may finish, while new ones are rejected; 0 by default,
   * Infinity = no limit
   */
  async close(options: { readonly drainMs?: number | undefined } = {}): Promise<void> {
    checkOptions(options, CLOSE_OPTIONS)
    await getHttp(this).close(options.drainMs ?? 0)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** Creates a client. Sends nothing until the first call. @throws TypeError naming the invalid option */
export function createClient(config: ClientConfig): Client {
  return new Client(config)
}
