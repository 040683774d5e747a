import { HttpError } from '../base/errors.ts'
import { joinSignals } from '../base/join-signals.ts'
import { CLOSE_TIMEOUT_MS } from '../base/limits.ts'
import type { WireStreamResult } from '../base/wire.ts'
import { InsertedRowids } from '../codec/inserted-rowids.ts'
import {
  CLOSE as CLOSE_REQUEST,
  decodePipeline,
  pipelineBody,
  replicationIndexOf,
} from '../codec/pipeline.ts'
import { type Address, followBaseUrl } from '../config.ts'
import { type Http, notSent, type Sent } from '../http/http.ts'
import type { OpenStream } from '../http/lifetime.ts'
import { CLOSE, CONTINUE, READ, type RequestPolicy, WRITE } from '../http/policies.ts'
import type { SqlRequest } from '../request/sql-request.ts'

/** The result of the one operation of a request. */
export type Answer = WireStreamResult | undefined

/** Whether the stream has the write lock, or may get it by a request; and its slots for that. */
interface LockUse {
  readonly mayHoldLock: boolean
  readonly ownPermits: number
}

/** The server's side of a stream: the baton that continues it, and the address and protocol version it is bound to. */
export class StreamConnection {
  readonly http: Http
  address: Address
  readonly #stream: OpenStream
  readonly #isTracked: boolean
  /** Continues the stream; null when there is none on the server, as far as it is known. */
  baton: string | null = null
  readonly rowids = new InsertedRowids()
  #isV3 = true
  /** The end of a stream whose request was given up and is still under way. */
  #pendingClose: Promise<void> | null = null

  /** @param isTracked whether it is opened by a call that the client knows of */
  constructor(http: Http, stream: OpenStream, isTracked: boolean) {
    this.http = http
    this.address = http.config.address
    this.#stream = stream
    this.#isTracked = isTracked
  }

  setBaton(baton: string | null): void {
    if ((baton === null) !== (this.baton === null))
      this.http.lifetime.trackStream(this.#stream, baton !== null)
    this.baton = baton
  }

  /** Whether a request can have the server itself check for the transaction. */
  get isV3(): boolean {
    return this.#isV3 && this.http.hasV3 !== false
  }

  /**
   * Sends one request. Never rejects.
   * @param lock what it has to do with the write lock
   */
  async send(request: SqlRequest, close: boolean, lock: LockUse): Promise<Sent<Answer>> {
    const { http } = this
    const { lifetime } = http
    const isNew = this.baton === null
    if (isNew) {
      this.#isV3 = http.hasV3 ?? true
      try {
        lifetime.begin(this.#isTracked)
      } catch (error) {
        return notSent(error)
      }
    }
    const { signals } = request
    const joined = signals.length > 1 ? joinSignals(signals) : null
    const signal = joined?.signal ?? signals[0]
    let sent = await this.#post(request, close, lock, signal)
    // others may have found it out meanwhile
    if (isNew && !sent.isOk && isMissing(sent.error) && this.#isV3 && http.hasV3 !== true) {
      this.#isV3 = false
      sent = await this.#post(request, close, lock, signal)
    }
    joined?.stop()
    if (!sent.isOk && sent.readLateResponse) this.closeAfterLateResponse(sent.readLateResponse())
    if (isNew) lifetime.end()
    return sent
  }

  get #path(): string {
    return `/v${this.#isV3 ? 3 : 2}/pipeline`
  }

  #post(
    request: SqlRequest,
    close: boolean,
    lock: LockUse,
    signal: AbortSignal | undefined,
  ): Promise<Sent<Answer>> {
    const { http, baton } = this
    const { mayHoldLock, ownPermits } = lock
    return http.exchange(
      this.#path,
      (index) => pipelineBody([request.encode(this.#isV3, index), ...(close ? [CLOSE_REQUEST] : [])], baton),
      {
        deadline: request.deadline,
        signal,
        limiter: baton === null ? (mayHoldLock ? http.writes : http.reads) : null,
        needsIndex: request.isFirst,
        mayOmitIndex: baton === null && request.isReadOnly,
        policy: policyOf(request, baton, mayHoldLock),
        ownPermits,
      },
      (text) => this.#read(text, close),
      this.address,
    )
  }

  #read(text: string, close: boolean): Answer {
    const { config, replica } = this.http
    const response = decodePipeline(text)
    const { baton, base_url: baseUrl, results } = response
    this.setBaton(close ? null : (baton ?? null))
    // only a server that knows `/v3` has a baton there; `/v2` is asked where `/v3` was not found
    if (this.baton || !this.#isV3) this.http.hasV3 = this.#isV3
    this.address = (baseUrl && followBaseUrl(baseUrl, config)) || this.address
    replica.record(replicationIndexOf(response))
    return results[0]
  }

  /** Whether the server may have the stream still. */
  get mayBeOpen(): boolean {
    return this.baton !== null || this.#pendingClose !== null
  }

  /** Closes the stream, after a request that was given up and is still under way. Never rejects. */
  async end(): Promise<void> {
    await this.#pendingClose
    await this.#close()
  }

  async #close(): Promise<void> {
    const { http } = this
    if (this.baton === null) return
    const body = pipelineBody([CLOSE_REQUEST], this.baton)
    // given up, it would leave the write lock taken
    const timeoutMs = Math.max(http.config.requestTimeoutMs, CLOSE_TIMEOUT_MS)
    const controller = new AbortController()
    const { signal } = controller
    const options = { deadline: http.deadline(timeoutMs), signal, limiter: null, policy: CLOSE }
    const done = http.exchange(
      this.#path,
      () => body,
      options,
      () => {},
      this.address,
    )
    http.lifetime.addBackground(done, () => controller.abort())
    // answered or not: it is not asked for again
    await done
    this.setBaton(null)
  }

  /**
   * Closes the stream of a request that was given up, when its answer is there.
   * @param answer sets the baton that continues the stream; rejects when there is no answer
   */
  closeAfterLateResponse(answer: Promise<unknown>): void {
    // no other request may continue it meanwhile
    const last = this.baton
    this.setBaton(null)
    const close = async (): Promise<void> => {
      await answer.catch(() => {
        this.setBaton(last)
      })
      await this.#close()
    }
    this.#pendingClose = close()
    this.http.lifetime.addBackground(this.#pendingClose)
  }
}

/** Whether the server does not know the path: what it does not have behind a path it names in JSON. */
export const isMissing = (error: unknown): boolean =>
  error instanceof HttpError && error.status === 404 && error.body[0] !== '{'

/** The policy of a request on a stream. @param mayHoldLock whether the stream holds the write lock, or the request acquires it */
export function policyOf(
  { isReadOnly }: SqlRequest,
  baton: string | null,
  mayHoldLock: boolean,
): RequestPolicy {
  if (mayHoldLock) return WRITE
  return baton === null && isReadOnly ? READ : CONTINUE
}
