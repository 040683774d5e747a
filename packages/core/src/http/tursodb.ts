import type { Deadline } from '../base/deadline.ts'
import { SqlError, TransportError } from '../base/errors.ts'
import type { WireError } from '../base/wire.ts'
import type { Address } from '../config.ts'
import { timeoutError } from '../transport/failure.ts'
import type { TransportHead } from '../transport/transport.ts'
import { Limiter, type Permit } from './limiter.ts'
import { type Message, notSent, type RequestOptions, type Sender, type SendResult } from './message.ts'
import { WRITE } from './policies.ts'
import { backoffMs } from './retry.ts'
import { lockHint } from './write-lock.ts'

const LOCKED_MESSAGE = /^(?:database is locked|Database is busy)$/
const NO_READONLY_MESSAGE = /^near "READONLY": syntax error$/i

/** Matches the beginning of `BEGIN READONLY` in a request. */
const BEGIN_READONLY = /"sql":"begin(?:\s|\\[nrt])+readonly\b/gi

/** First and longest delay between two attempts to acquire the write lock, in ms. */
const FIRST_DELAY_MS = 5
const LONGEST_DELAY_MS = 250

interface Outcome {
  readonly error?: WireError | undefined
}

interface OperationResult {
  readonly error?: WireError
  readonly response?: {
    readonly type: string
    readonly result?: { readonly step_results?: unknown[]; readonly step_errors?: (WireError | null)[] }
  }
}

/** Returns the outcomes of the statements that were not skipped. */
const getOutcomes = ({ error, response }: OperationResult): readonly Outcome[] => {
  if (error) return [{ error }]
  const { step_errors: errors, step_results: results } = response?.result ?? {}
  if (!errors || !results) return response?.type === 'close' ? [] : [{}]
  return errors.flatMap((stepError, index) =>
    stepError ? [{ error: stepError }] : results[index] ? [{}] : [],
  )
}

/** Returns the error of a write that waited for another write, or for a transaction, of its client. */
const lockTimeout = ({ address }: { readonly address: Address }, { timeoutMs }: Deadline): TransportError =>
  timeoutError(timeoutMs, address.origin, false, lockHint('writer of this client held'))

function restartDeadlines(calls: readonly { readonly deadline: Deadline }[]): void {
  for (const { deadline } of calls) deadline.restart()
}

/**
 * A request of which the engine executed no part, so that it may be sent again. `check` throws it while a response is read: the first
 * time, `Http` catches it and calls `sendAgain`; after that, `#adapt` returns it as a value to `#sendUntilAccepted`.
 */
export class RefusedRequest<R> {
  readonly #engine: Tursodb
  /** The response, decoded for the caller. */
  readonly value: R
  readonly error: SqlError
  /** Continues the stream of the request. */
  readonly baton: string | null

  // oxlint-disable-next-line max-params
  constructor(engine: Tursodb, value: R, error: WireError, baton: string | null) {
    this.#engine = engine
    this.value = value
    this.error = new SqlError(error)
    this.baton = baton
  }

  /** Whether another writer holds the write lock. Otherwise the engine does not know `BEGIN READONLY`, which `#adapt` replaces. */
  get isLocked(): boolean {
    return this.error.code === 'SQLITE_BUSY'
  }

  sendAgain<T extends TransportHead>(
    message: Message<T, R>,
    options: RequestOptions,
  ): Promise<SendResult<R>> {
    return this.#engine.send(message, options, this)
  }
}

/**
 * Sends the requests of a client to Turso's engine, which has no queue for the write lock and rejects a writer at once. The writers
 * of the client queue here; while another client holds the lock, their requests are sent again.
 */
export class Tursodb {
  readonly #http: Sender
  readonly #lock: Limiter
  /** Write permits of transactions that hold `#lock`, or wait for it. */
  readonly #holders = new WeakSet<Permit>()

  constructor(http: Sender) {
    this.#http = http
    this.#lock = new Limiter(http.lifetime, 1, http.config.queueLimit)
  }

  /** Whether a writer of this client is waiting for another. */
  get isContended(): boolean {
    return this.#lock.queued > 0
  }

  /** Returns the value of a response. @throws RefusedRequest if nothing was executed because of the write lock or `BEGIN READONLY` */
  check<R>(value: R, text: string): R {
    const { baton = null, results = [] } = JSON.parse(text) as {
      baton?: string | null
      results?: OperationResult[]
    }
    const outcomes = results.flatMap(getOutcomes)
    const error = outcomes[0]?.error
    const isLocked = error?.code === 'SQLITE_BUSY' && LOCKED_MESSAGE.test(error.message)
    const isUnknownMode = error?.code === 'SQL_PARSE_ERROR' && NO_READONLY_MESSAGE.test(error.message)
    const canRetry = isLocked || isUnknownMode
    if (canRetry && outcomes.every((outcome) => outcome.error))
      throw new RefusedRequest(this, value, error, baton)
    return value
  }

  /**
   * Sends a request as soon as no earlier writer of this client holds the write lock. Never rejects.
   * @param rejection the engine's previous rejection of the request, if any
   */
  async send<T extends TransportHead, R>(
    message: Message<T, R>,
    options: RequestOptions,
    rejection: RefusedRequest<R> | null = null,
  ): Promise<SendResult<R>> {
    const { deadline, limiter, permit, policy, signal, calls = [{ deadline }] } = options
    const acquiresLock = policy === WRITE && limiter !== null
    if (!acquiresLock || (permit && this.#holders.has(permit)))
      return await this.#sendUntilAccepted(message, options, rejection)
    try {
      const lockPermit = this.#lock.acquire(
        permit
          ? this.#permitLimits(permit, signal)
          : { deadline, signal, onTimeout: () => lockTimeout(message, deadline) },
      )
      if (permit) this.#holdWith(permit, lockPermit)
      await lockPermit.waiter?.promise
      if (permit && lockPermit.waiter) restartDeadlines(calls)
      const result = this.#sendUntilAccepted(message, options, rejection)
      return await (permit ? result : result.finally(() => lockPermit.release()))
    } catch (error) {
      if (permit) {
        this.#holders.delete(permit)
        restartDeadlines(calls)
      }
      return notSent(error)
    }
  }

  /** Returns the limits of the wait for the lock. It shares its deadline with the wait for the permit. */
  #permitLimits({ deadline }: Permit, signal: AbortSignal | undefined): Parameters<Limiter['acquire']>[0] {
    const timeoutMs = this.#http.config.writeLockTimeoutMs
    const onTimeout = (): Error =>
      new TransportError(
        'TIMEOUT',
        `waited ${timeoutMs / 1_000} s for the write lock behind another writer of this client (writeLockTimeoutMs)`,
        'not_applied',
      )
    return { deadline, signal, onTimeout }
  }

  /** Holds the lock until the transaction's write permit is released, by replacing the permit's method. */
  #holdWith(permit: Permit, lockPermit: Permit): void {
    const release = permit.release.bind(permit)
    this.#holders.add(permit)
    permit.release = () => {
      lockPermit.release()
      release()
    }
  }

  /** Sends a request, and retries it until its deadline while another client holds the write lock. */
  async #sendUntilAccepted<T extends TransportHead, R>(
    message: Message<T, R>,
    options: RequestOptions,
    previousRejection: RefusedRequest<R> | null,
  ): Promise<SendResult<R>> {
    const { events, lifetime } = this.#http
    const { deadline, signal, onRetry } = options
    let rejection = previousRejection
    for (let attempt = 0; ; attempt++) {
      if (rejection) {
        const { error, value } = rejection
        const delayMs = rejection.isLocked ? backoffMs(attempt, FIRST_DELAY_MS, LONGEST_DELAY_MS) : 0
        if (rejection.isLocked && delayMs >= deadline.remainingMs) return { isOk: true, value }
        events.emit({ type: 'retry', attempt: attempt + 1, delayMs, error })
        try {
          await lifetime.sleep(delayMs, signal)
        } catch (reason) {
          return notSent(reason)
        }
        onRetry?.()
      }
      const result = await this.#http.send(this.#adapt(message, rejection), options)
      // the deadline passed before the request could be sent again
      if (rejection?.isLocked && !result.isOk && !result.isSent && deadline.remainingMs <= 0)
        return { isOk: true, value: rejection.value }
      if (!result.isOk || !(result.value instanceof RefusedRequest)) return result as SendResult<R>
      // the adapted text was rejected as well
      if (rejection && !rejection.isLocked && !result.value.isLocked)
        return { isOk: true, value: result.value.value }
      rejection = result.value
    }
  }

  /** Returns a request in the form that the engine accepts. */
  #adapt<T extends TransportHead, R>(
    message: Message<T, R>,
    rejection: RefusedRequest<R> | null,
  ): Message<T, R | RefusedRequest<R>> {
    const { body } = message
    return {
      ...message,
      body:
        body &&
        ((index) => {
          const text = body(index).replaceAll(BEGIN_READONLY, '"sql":"BEGIN DEFERRED')
          if (!rejection) return text
          const baton = rejection.baton === null ? '' : `"baton":${JSON.stringify(rejection.baton)},`
          return `{${baton}${text.slice(text.indexOf('"requests":'))}`
        }),
      async read(response) {
        try {
          return await message.read(response)
        } catch (error) {
          if (error instanceof RefusedRequest) return error as RefusedRequest<R>
          throw error
        }
      },
    }
  }
}
