import { createTransport } from '#transport'
import { atCaller } from '../at-caller.ts'
import { CALL_OPTIONS, checkOptions, kindOf } from '../check-options.ts'
import { type Clock, systemClock } from '../clock.ts'
import type { Address, ResolvedConfig } from '../config.ts'
import { HttpError, type Outcome } from '../errors.ts'
import { Events } from '../events.ts'
import { GIVE_UP_LIMIT_MS, WRITE_TRANSACTIONS } from '../limits.ts'
import type { CallOptions } from '../options.ts'
import { timeoutError } from '../transport/failure.ts'
import { FetchTransport } from '../transport/fetch.ts'
import type {
  Exchange,
  Transport,
  TransportHead,
  TransportRequest,
  TransportResponse,
} from '../transport/transport.ts'
import { Deadline } from './deadline.ts'
import { Lane } from './lane.ts'
import { Lifetime } from './lifetime.ts'
import { RetryPolicy } from './retry.ts'
import { ServerState } from './server-state.ts'
import { Waiter, type WaitOptions } from './waiter.ts'
import { WriteLock } from './write-lock.ts'

/** What the sender of a request knows of its call. */
export interface SendOptions {
  readonly signal?: AbortSignal | undefined
  readonly deadline: Deadline
  /** Called each time the request leaves, after its waits, with what gives it up. */
  readonly onSend?: ((giveUp: (reason: unknown) => void) => void) | undefined
  /** Takes note of whether a request has left that may have run: not one that is about to be sent again. */
  readonly progress?: { isSent: boolean } | undefined
}

/** What is known of a request. */
export interface RequestOptions extends SendOptions {
  /** Where it queues for its turn; null for what continues a stream: behind others it could keep the write lock from them. */
  readonly lane: Lane | null
  /** Whether it does no harm to run it twice. */
  readonly isRepeatable?: boolean | undefined
  /**
   * Set for a request that may hold or get the write lock. When its call is given up, it is left to finish, so that its
   * stream can be closed: the server would keep the lock for the rest of its 5 s otherwise. Gets what reads the late answer.
   */
  readonly onLate?: ((readAnswer: () => Promise<string>) => unknown) | undefined
  /** Whether it ends a stream, which goes on when the client is closed meanwhile. */
  readonly endsStream?: boolean | undefined
}

/** One request, and how its answer is read. */
export interface Message<T extends TransportHead, R> {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body: string | null
  readonly address: Address
  send(request: TransportRequest): Exchange<T>
  /** @throws HttpError for a status other than 2xx */
  read(answer: T): R | Promise<R>
}

/** Sends requests to the database's address: headers, token, turn and deadline are put on here. */
export class Http {
  readonly config: ResolvedConfig
  readonly clock: Clock
  readonly server: ServerState
  readonly events: Events
  readonly lifetime: Lifetime
  readonly transport: Transport
  /** Reads queue by themselves: a transaction may await one, and would wait behind those that wait for its write lock. */
  readonly reads: Lane
  readonly writes: Lane
  readonly writeLock: WriteLock
  readonly #headers: Record<string, string>
  readonly #retries: RetryPolicy

  constructor(config: ResolvedConfig, clock: Clock = systemClock) {
    const { concurrency, queueLimit } = config
    this.config = config
    this.clock = clock
    this.server = new ServerState(config.minReplicationIndex, config.readYourWrites)
    this.events = new Events(config.observe)
    this.lifetime = new Lifetime(clock)
    this.reads = new Lane(this.lifetime, concurrency, queueLimit)
    this.writes = new Lane(this.lifetime, concurrency, queueLimit)
    const transactions = new Lane(this.lifetime, WRITE_TRANSACTIONS, queueLimit)
    this.writeLock = new WriteLock(transactions, config.writeLockTimeoutMs)
    this.#retries = new RetryPolicy(config.maxRetries)
    this.transport = config.fetch ? new FetchTransport(config.fetch) : createTransport()
    this.#headers = { 'content-type': 'application/json', ...config.headers }
    if (typeof config.authToken === 'string') Object.assign(this.#headers, authorization(config.authToken))
  }

  /** The time of a call that begins now. @throws TypeError when `timeoutMs` is no time */
  deadline(timeoutMs: number = this.config.requestTimeoutMs): Deadline {
    return new Deadline(this.clock, timeoutMs)
  }

  /**
   * Sends a body of JSON, again where the policy allows it, within one deadline.
   * @returns the answer's text @throws HttpError for a status other than 2xx
   */
  post(
    path: string,
    body: string,
    options: RequestOptions,
    address: Address = this.config.address,
  ): Promise<string> {
    return this.send({ method: 'POST', path, body, address, ...this.#text(address) }, options)
  }

  /** @returns the answer's text @throws HttpError for a status other than 2xx */
  async get(path: string, options: CallOptions = {}): Promise<string> {
    checkOptions(options, CALL_OPTIONS)
    const { signal, timeoutMs } = options
    const { address } = this.config
    const message = { method: 'GET', path, body: null, address, ...this.#text(address) } as const
    const deadline = this.deadline(timeoutMs)
    this.lifetime.begin()
    try {
      return await this.send(message, { signal, deadline, lane: this.reads, isRepeatable: true })
    } catch (error) {
      throw atCaller(error)
    } finally {
      this.lifetime.end()
    }
  }

  #text({ origin }: Address): Pick<Message<TransportResponse, string>, 'send' | 'read'> {
    return {
      send: (request) => this.#observed(request),
      read({ status, text, retryAfter }) {
        if (status < 200 || status > 299) throw new HttpError(status, origin, text, retryAfter)
        return text
      },
    }
  }

  async send<T extends TransportHead, R>(message: Message<T, R>, options: RequestOptions): Promise<R> {
    const { signal, deadline, isRepeatable = false } = options
    for (let attempt = 0; ; attempt++) {
      try {
        const result = await this.#attempt(message, options)
        this.#retries.succeeded()
        return result
      } catch (error) {
        const delayMs = this.#retries.delayMs(error, attempt, isRepeatable)
        if (signal?.aborted || delayMs === null || delayMs >= deadline.leftMs) throw error
        this.events.emit({ type: 'retry', attempt: attempt + 1, delayMs, error })
        if (options.progress) options.progress.isSent = false
        await this.lifetime.wait({ ms: delayMs, signal }).promise
      }
    }
  }

  /** Waits for something in the middle of a call. */
  #wait<T>(options: WaitOptions, endsStream: boolean | undefined, outcome?: () => Outcome): Waiter<T> {
    return endsStream ? new Waiter<T>(this.clock, options) : this.lifetime.wait<T>(options, outcome)
  }

  async #attempt<T extends TransportHead, R>(message: Message<T, R>, options: RequestOptions): Promise<R> {
    const { signal, deadline, lane, onSend, onLate, endsStream, progress = { isSent: false } } = options
    progress.isSent = false
    const { origin } = message.address
    const late = (isSent: boolean): Error => timeoutError(deadline.timeoutMs, origin, isSent)
    const notSent = { signal, ms: deadline.leftMs, late: () => late(false) }
    if (notSent.ms <= 0) throw late(false)
    await lane?.acquire(notSent)
    let release = (): void => lane?.release()
    try {
      const headers = await this.#withToken(notSent, endsStream)
      signal?.throwIfAborted()
      const ms = deadline.leftMs
      if (ms <= 0) throw late(false)
      const { method, path, body, address } = message
      let exchange: Exchange<T> | null = null
      const isSent = (): boolean => exchange?.isSent === true
      const waiter = this.#wait<T>({ signal, ms, late: () => late(isSent()) }, endsStream, () =>
        isSent() ? 'unknown' : 'not_applied',
      )
      onSend?.(waiter.reject)
      if (waiter.isOver) return message.read(await waiter.promise)
      progress.isSent = true
      exchange = message.send({ method, origin, path: address.basePath + path, headers, body })
      const { answer } = exchange
      let isAnswered = false
      answer.then(
        (head) => {
          isAnswered = true
          waiter.resolve(head)
        },
        (error: unknown) => {
          isAnswered = true
          waiter.reject(error)
        },
      )
      try {
        return await message.read(await waiter.promise)
      } catch (error) {
        if (isAnswered) throw error
        if (!onLate || !exchange.isSent) exchange.abort()
        else {
          this.#leave(
            exchange,
            async () => await onLate(() => answer.then((late) => message.read(late)) as Promise<string>),
            release,
          )
          release = () => {}
        }
        throw error
      }
    } finally {
      release()
    }
  }

  /** Lets a request finish that was given up. */
  #leave(exchange: Exchange<TransportHead>, follow: () => Promise<unknown>, release: () => void): void {
    const cancel = this.clock.after(GIVE_UP_LIMIT_MS, () => exchange.abort())
    const end = (): void => {
      cancel()
      release()
    }
    this.lifetime.addBackground(follow().then(end, end), () => exchange.abort())
  }

  #observed(request: TransportRequest): Exchange {
    const exchange = this.transport.request(request)
    if (!this.events.isWatched) return exchange
    const started = this.clock.now()
    const report = (response: TransportResponse | null): void =>
      this.events.emit({
        type: 'request',
        method: request.method,
        path: request.path,
        status: response?.status ?? null,
        requestBytes: byteLength(request.body),
        responseBytes: byteLength(response?.text),
        durationMs: this.clock.now() - started,
      })
    exchange.answer.then(report, () => report(null))
    return exchange
  }

  async #withToken(options: WaitOptions, endsStream: boolean | undefined): Promise<Record<string, string>> {
    const { authToken } = this.config
    if (typeof authToken !== 'function') return this.#headers
    const waiter = this.#wait<string>(options, endsStream)
    new Promise<string>((resolve) => resolve(authToken())).then(waiter.resolve, waiter.reject)
    return { ...this.#headers, ...authorization(await waiter.promise) }
  }

  /** Lets no call begin any more, waits for those under way as long as told, and frees the connections. */
  async close(drainMs: number): Promise<void> {
    await this.lifetime.close(drainMs)
    await this.transport.close()
  }
}

const byteLength = (text: string | null | undefined): number => new TextEncoder().encode(text ?? '').length

function authorization(token: string): Record<string, string> {
  // checked here because the platform's own error would print the header, and the token with it
  if (typeof token !== 'string')
    throw new TypeError(`the function authToken must return a string, not ${kindOf(token)}`)
  if (!/^[\x21-\x7e]*$/.test(token)) throw new TypeError('authToken has characters that no token has')
  return token ? { authorization: `Bearer ${token}` } : {}
}
