import { checkEnds, describeType } from '@batonsql/options'
import { createTransport } from '#transport'
import { type Clock, systemClock } from '../base/clock.ts'
import { Deadline } from '../base/deadline.ts'
import { asOwn, HttpError, TransportError } from '../base/errors.ts'
import { ABORTED_REQUEST_MS, MAX_WRITE_TRANSACTIONS, REPLICA_WAIT_MS } from '../base/limits.ts'
import { beginStatement, PROBE, ROLLBACK } from '../codec/control.ts'
import type { Guard } from '../codec/guard.ts'
import { CLOSE, decodePipeline, pipelineBody, readReplicationIndex } from '../codec/pipeline.ts'
import type { Address, ResolvedConfig } from '../config.ts'
import { byteLength, Events } from '../observe/events.ts'
import { timeoutError } from '../transport/failure.ts'
import { FetchTransport } from '../transport/fetch.ts'
import type {
  Exchange,
  Transport,
  TransportHead,
  TransportRequest,
  TransportResponse,
} from '../transport/transport.ts'
import { Lifetime } from './lifetime.ts'
import { Limiter, type Permit } from './limiter.ts'
import {
  isSuccess,
  type Message,
  type NoResponse,
  notSent,
  type RequestOptions,
  type SendResult,
} from './message.ts'
import { CONTINUE } from './policies.ts'
import { ReplicaIndex, type ReplicaWatch, type ServerIndexes } from './replica-index.ts'
import { RetryPolicy } from './retry.ts'
import type { RefusedRequest, Tursodb } from './tursodb.ts'
import { WriteLock } from './write-lock.ts'

/** What a client has found out about its server. */
export interface ServerFeatures {
  /** Whether it was found to support `/v3/pipeline`. */
  hasV3: boolean
  /** Set if it does not support `/v3/pipeline`. */
  V2Guard: (new (tested: 'begin' | 'commit') => Guard) | undefined
  /** Whether it has shown that it evaluates the conditions of steps. */
  evaluatesConditions: boolean
  /** Whether it supports only `execute` and `close`; undefined before the first batch. */
  isExecuteOnly: boolean | undefined
  /** Whether it supports `/v3/cursor`, as far as is known. */
  hasCursors: boolean
}

/** Sends requests to the database: adds headers and token, limits concurrency, applies the deadline and retries. */
export class Http {
  readonly config: ResolvedConfig
  readonly clock: Clock
  readonly replica: ReplicaIndex
  readonly server: ServerFeatures = {
    hasV3: false,
    V2Guard: undefined,
    evaluatesConditions: false,
    isExecuteOnly: undefined,
    hasCursors: true,
  }
  readonly events: Events
  readonly lifetime: Lifetime
  readonly transport: Transport
  /** Reads have their own queue: a transaction may await one while writes are queued for its write lock. */
  readonly reads: Limiter
  readonly writes: Limiter
  /**
   * Coalesced writes are sent one request at a time: libsql-server takes twice as long for two at once, and occasionally
   * rejects one with SQLITE_BUSY.
   */
  readonly coalescedWrites: Limiter
  readonly writeLock: WriteLock
  /** Set after an error has shown that the server runs Turso's engine. */
  tursodb: Tursodb | null = null
  readonly #headers: Record<string, string>
  readonly #retries: RetryPolicy

  constructor(config: ResolvedConfig, clock: Clock = systemClock) {
    const { concurrency, queueLimit, minReplicationIndex, readYourWrites } = config
    this.config = config
    this.clock = clock
    this.replica = new ReplicaIndex(clock, () => this.#fetchIndexes(), minReplicationIndex, readYourWrites)
    this.events = new Events(config.observe)
    this.lifetime = new Lifetime(clock, config.address.origin)
    const createLimiter = (limit: number): Limiter => new Limiter(this.lifetime, limit, queueLimit)
    this.reads = createLimiter(concurrency)
    this.writes = createLimiter(concurrency)
    this.coalescedWrites = createLimiter(1)
    this.writeLock = new WriteLock(clock, createLimiter(MAX_WRITE_TRANSACTIONS), config.writeLockTimeoutMs)
    this.#retries = new RetryPolicy(config.maxRetries)
    this.transport = config.fetch ? new FetchTransport(config.fetch) : createTransport()
    this.#headers = { 'content-type': 'application/json', ...config.headers }
    if (typeof config.authToken === 'string') Object.assign(this.#headers, authorization(config.authToken))
  }

  /** Whether a write or a transaction of this client may be waiting for the one that holds the write lock. */
  get hasPendingWrites(): boolean {
    const { tursodb, writeLock, writes } = this
    return writes.used + writeLock.pending > 0 || writeLock.isContended || tursodb?.isContended === true
  }

  /** Returns the deadline of a call that begins now. */
  deadline(timeoutMs?: number): Deadline {
    return new Deadline(this.clock, timeoutMs ?? this.config.requestTimeoutMs)
  }

  /**
   * Sends a body of JSON, or a GET, and retries where the policy allows it, within one deadline. Never rejects.
   * @param body null for a GET
   * @param read reads the text of the response
   */
  exchange<R>(
    path: string,
    body: ((index: string | null) => string) | null,
    options: RequestOptions,
    read: (text: string) => R,
    address: Address = this.config.address,
  ): Promise<SendResult<R>> {
    const message: Message<TransportResponse, R> = {
      path,
      body,
      address,
      send: this.#sendObserved,
      read: ({ status, text, retryAfter }) => {
        if (!isSuccess(status)) throw new HttpError(status, joinUrl(address, path), text, retryAfter)
        return UNUSUAL_ERROR.test(text)
          ? import('./translate-errors.ts').then(({ readUnusualResponse }) =>
              readUnusualResponse(this, text, read),
            )
          : read(text)
      },
    }
    return (this.tursodb ?? this).send(message, options)
  }

  /** Sends a request, and retries where the policy allows it. Never rejects. @param attempt from 0 */
  async send<T extends TransportHead, R>(
    message: Message<T, R>,
    options: RequestOptions,
    attempt = 0,
  ): Promise<SendResult<R>> {
    const { signal, deadline, limiter, policy } = options
    const { path, address } = message
    const { origin, basePath } = address
    let exchange: Exchange<T> | null = null
    let isSettled = false
    let callPermit: Permit | null = null
    let index: string | null = null
    let watch: ReplicaWatch | undefined
    let failure: NoResponse<R>
    const isSent = (): boolean => exchange?.isSent === true
    const onTimeout = (): Error => {
      const mayBeBlocked = policy.keepRunning && limiter && isSent()
      const hint = mayBeBlocked ? this.writeLock.hint(options.permit) : ''
      return timeoutError(deadline.timeoutMs, origin, isSent(), watch?.isBehind ? REPLICA_IS_BEHIND : hint)
    }
    const limits = { signal, deadline, onTimeout, outlivesClient: policy.outlivesClient }
    // 1 for a write outside of a transaction, which acquires the write lock itself
    const lockCount = policy.keepRunning && !options.inTransaction ? 1 : 0
    this.writeLock.pending += lockCount
    try {
      callPermit = limiter && limiter.acquire(limits)
      if (callPermit?.waiter) await callPermit.waiter.promise
      const { authToken } = this.config
      const headers =
        typeof authToken === 'function' ? await this.#withToken(authToken, options) : this.#headers
      signal?.throwIfAborted()
      if (options.needsIndex) index = this.replica.value
      const body = message.body?.(index) ?? null
      const timeLimit = { remainingMs: deadline.remainingMs, timeoutMs: deadline.timeoutMs }
      if (timeLimit.remainingMs <= 0) throw onTimeout()
      const waiter = this.lifetime.wait<T>({ ...limits, deadline: timeLimit, mayHaveRun: isSent })
      // only a read can be sent again with another index
      if (index !== null && (options.mayOmitIndex ?? policy.isIdempotent))
        watch = this.replica.watch(index, () => waiter.reject(INDEX_RESET))
      exchange = message.send({
        method: body === null ? 'GET' : 'POST',
        origin,
        path: basePath + path,
        headers,
        body,
      })
      const settle = (acquired: number) => (): void => {
        isSettled = true
        this.writeLock.acquired += acquired
      }
      exchange.response.then(settle(lockCount), settle(0))
      exchange.response.then(waiter.resolve, waiter.reject)
      const result = message.read(await waiter.promise)
      const value = result instanceof Promise ? await result : result
      this.#retries.succeeded()
      return { isOk: true, value }
    } catch (error) {
      failure = { isOk: false, error, isSent: isSent() }
      // a read that was still waiting for an index has not run
      if (exchange && !isSettled && policy.keepRunning && isSent() && error !== INDEX_RESET) {
        const { response } = exchange
        this.#finishInBackground(exchange, callPermit)
        callPermit = null
        failure.readLateResponse = async () => message.read(await response)
      } else if (!isSettled) exchange?.abort()
    } finally {
      this.writeLock.pending -= lockCount
      watch?.stop()
      callPermit?.release()
    }
    return await this.#sendAgain(message, options, attempt, failure, index)
  }

  /** Sends a request again, if it may be repeated. Otherwise returns its failure. */
  async #sendAgain<T extends TransportHead, R>(
    message: Message<T, R>,
    options: RequestOptions,
    attempt: number,
    failure: NoResponse<R>,
    index: string | null,
  ): Promise<SendResult<R>> {
    const { error } = failure
    if (error === INDEX_RESET) return await this.send(message, options, attempt)
    if ((error as Partial<RefusedRequest<R>> | null)?.sendAgain)
      return await (error as RefusedRequest<R>).sendAgain(message, options)
    if (index !== null && error instanceof TransportError && error.code === 'TIMEOUT')
      void this.replica.check(index)
    const { signal, deadline, policy } = options
    if (signal?.aborted) return failure
    const delayMs = this.#retries.takeRetry(error, attempt, policy.isIdempotent, deadline.remainingMs)
    if (delayMs === null) return failure
    options.onRetry?.()
    this.events.emit({ type: 'retry', attempt: attempt + 1, delayMs, error })
    try {
      await this.lifetime.sleep(delayMs, signal)
    } catch (reason) {
      return notSent(reason)
    }
    return await this.send(message, options, attempt + 1)
  }

  /** Requests the replication indexes of the server and of its primary, to which a replica forwards a BEGIN even with a read-only token. */
  async #fetchIndexes(): Promise<ServerIndexes> {
    const statements = [PROBE, beginStatement('deferred'), ROLLBACK]
    const probe = pipelineBody([...statements.map(({ json }) => `{"type":"execute","stmt":${json}}`), CLOSE])
    const options = { deadline: this.deadline(REPLICA_WAIT_MS), limiter: null, policy: CONTINUE }
    const response = unwrap(await this.exchange('/v2/pipeline', () => probe, options, decodePipeline))
    return { server: readReplicationIndex(response), primary: readReplicationIndex(response, 1) }
  }

  /** Leaves an aborted request running in the background, where it still counts as a concurrent request. */
  #finishInBackground(exchange: Exchange<TransportHead>, callPermit: Permit | null): void {
    const cancel = this.clock.after(ABORTED_REQUEST_MS, () => exchange.abort())
    const end = (): void => {
      cancel()
      callPermit?.release()
    }
    this.lifetime.addBackground(exchange.response.then(end, end), () => exchange.abort())
  }

  /** Sends a request and reports it to the observer. */
  readonly #sendObserved = (request: TransportRequest): Exchange => {
    const exchange = this.transport.request(request)
    if (!this.events.isWatched) return exchange
    const report = this.events.request(request, this.clock)
    exchange.response.then(
      ({ status, text }) => report(status, byteLength(text)),
      () => report(null, 0),
    )
    return exchange
  }

  async #withToken(
    authToken: () => string | Promise<string>,
    options: RequestOptions,
  ): Promise<Record<string, string>> {
    const { signal, deadline, policy } = options
    const requestToken = async (): Promise<string> => await authToken()
    const { outlivesClient } = policy
    const onTimeout = (): Error =>
      new TransportError(
        'TIMEOUT',
        `authToken() returned no token within ${deadline.timeoutMs} ms`,
        'not_applied',
      )
    const token = await this.lifetime.until(requestToken, { signal, deadline, outlivesClient, onTimeout })
    try {
      return { ...this.#headers, ...authorization(token) }
    } catch (error) {
      throw asOwn(error as TypeError)
    }
  }

  /** Rejects new calls, waits up to `drainMs` for pending ones, and closes the connections. */
  async close(drainMs: number): Promise<void> {
    await this.lifetime.close(drainMs)
    await this.transport.close()
  }
}

/** Aborts a read that waits for an index that the replica will never reach. */
const INDEX_RESET = Symbol('index reset')
const REPLICA_IS_BEHIND = '; its replica has not received what this client has written or seen'

/** How messages of libsql-server begin, such as `SQLite error: no such table: t`. */
const USUAL_START = '(?:SQL|Response|Transaction t|Op|Arg)'
/** What such a message contains if it must be translated: words of Turso's engine, as in `SQLite error: step failed: …`, or `concurrent`. */
const OTHER_WORDS = '(?:`conc|ing statement:|(?:prepare|step) failed:|(?:Parse|Runtime|Transaction) error:)'
/** The rest of a JSON string, up to the words that follow. */
const REST_OF_STRING = String.raw`[^"\\]*(?:\\.[^"\\]*)*?`

/**
 * Matches a response with an error that is not worded like those of libsql-server, by its code or its message. Quotes in values are
 * escaped, so that no value matches.
 */
export const UNUSUAL_ERROR = new RegExp(
  `"code":"(?:SQLITE|[BEP]\\w+)_ERROR"|"message":"(?!${USUAL_START}(?!${REST_OF_STRING}${OTHER_WORDS}))`,
  'i',
)

/** Returns the value of a request. @throws its error */
export function unwrap<R>(result: SendResult<R>): R {
  if (!result.isOk) throw result.error
  return result.value
}

export const joinUrl = ({ origin, basePath }: Address, path: string): string => origin + basePath + path

function authorization(token: string): Record<string, string> {
  // checked here because the platform's own error would print the header, and the token with it
  if (typeof token !== 'string')
    throw new TypeError(`authToken() must return a string, not ${describeType(token)}`)
  checkEnds('authToken', token)
  if (!/^[\x21-\x7e]*$/.test(token)) throw new TypeError('authToken contains invalid characters')
  return token ? { authorization: `Bearer ${token}` } : {}
}
