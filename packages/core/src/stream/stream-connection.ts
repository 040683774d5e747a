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

/** Whether the stream holds the write lock or the request may acquire it, and how many write permits the stream has. */
interface LockUse {
  readonly mayHoldLock: boolean
  readonly ownPermits: number
}

/** Sends the requests of one stream: keeps its baton, and the address and protocol version that it is bound to. */
export class StreamConnection {
  readonly http: Http
  address: Address
  readonly #stream: OpenStream
  readonly #isTracked: boolean
  /** Continues the stream; null while the server has none, as far as the client knows. */
  baton: string | null = null
  readonly rowids = new InsertedRowids()
  #isV3 = true
  /** The closing of a stream whose request was aborted and is still in flight. */
  #pendingClose: Promise<void> | null = null

  /** @param isTracked whether the client, when it is closed, waits for the call that opens this stream */
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

  /** Whether the server supports `/v3`, where a step can be made to depend on the transaction. */
  get isV3(): boolean {
    return this.#isV3 && this.http.hasV3 !== false
  }

  /**
   * Sends one request. Never rejects.
   * @param lock how it uses the write lock
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
    // another call may have found out meanwhile
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
    // a baton on `/v3` proves that the server supports it; `/v2` is used only if `/v3` was not found
    if (this.baton || !this.#isV3) this.http.hasV3 = this.#isV3
    this.address = (baseUrl && followBaseUrl(baseUrl, config)) || this.address
    replica.record(replicationIndexOf(response))
    return results[0]
  }

  /** Whether the stream may still exist on the server. */
  get mayBeOpen(): boolean {
    return this.baton !== null || this.#pendingClose !== null
  }

  /** Closes the stream, after an aborted request that is still in flight. Never rejects. */
  async end(): Promise<void> {
    await this.#pendingClose
    await this.#close()
  }

  async #close(): Promise<void> {
    const { http } = this
    if (this.baton === null) return
    const body = pipelineBody([CLOSE_REQUEST], this.baton)
    // aborted earlier, it could leave the write lock held
    const timeoutMs = Math.max(http.config.requestTimeoutMs, CLOSE_TIMEOUT_MS)
    // aborted only when the client is closed: it creates a DOMException with a stack, a fifth of a transaction's CPU time
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
    // not repeated, whether it was answered or not
    await done
    this.setBaton(null)
  }

  /**
   * Closes the stream of an aborted request after its response has arrived.
   * @param answer sets the baton that continues the stream; rejects if there is no response
   */
  closeAfterLateResponse(answer: Promise<unknown>): void {
    // meanwhile no other request may continue the stream
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

/** Whether the server does not support the path. For other missing things it responds with JSON. */
export const isMissing = (error: unknown): boolean =>
  error instanceof HttpError && error.status === 404 && error.body[0] !== '{'

/** Returns the policy of a request on a stream. @param mayHoldLock whether the stream holds the write lock or the request acquires it */
export function policyOf(
  { isReadOnly }: SqlRequest,
  baton: string | null,
  mayHoldLock: boolean,
): RequestPolicy {
  if (mayHoldLock) return WRITE
  return baton === null && isReadOnly ? READ : CONTINUE
}
