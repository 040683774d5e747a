import { HttpError } from '../base/errors.ts'
import { joinSignals } from '../base/join-signals.ts'
import { CLOSE_TIMEOUT_MS } from '../base/limits.ts'
import { UNPROVEN_V3_GUARD, V3_GUARD } from '../codec/batch.ts'
import { InsertedRowids } from '../codec/inserted-rowids.ts'
import {
  CLOSE as CLOSE_REQUEST,
  decodePipeline,
  pipelineBody,
  readReplicationIndex,
} from '../codec/pipeline.ts'
import { type Address, followBaseUrl } from '../config.ts'
import type { Http, ServerFeatures } from '../http/http.ts'
import { notSent, type SendResult } from '../http/message.ts'
import { CLOSE, CONCURRENT, CONTINUE, READ, type RequestPolicy, WRITE } from '../http/policies.ts'
import type { SqlRequest } from '../request/sql-request.ts'
import type { Encode, LockUse, Sending, SendingStream, StreamResults } from './execute-only.ts'
import type { LastSending, StreamState } from './machine.ts'

/** The parts of a stream that its connection uses. */
interface Host {
  readonly http: Http
  readonly state: StreamState
  setBaton(baton: string | null): void
  awaitLate(response: Promise<unknown>): void
}

/** Sends the requests of one stream: keeps the address and protocol version that it is bound to. */
export class StreamConnection implements SendingStream {
  readonly http: Http
  address: Address
  readonly executeOnly = { isUnproven: false, isLost: false, begunAt: 0 }
  readonly rowids = new InsertedRowids()
  lastSending: LastSending = { sentAt: 0, continuesStream: false }
  readonly #stream: Host
  readonly #isTracked: boolean
  /** Set if the stream is bound to `/v2`, whatever the client detects about the server later. */
  #V2Guard: ServerFeatures['V2Guard']

  /** @param isTracked whether the client, when it is closed, waits for the call that opens this stream */
  constructor(stream: Host, isTracked: boolean) {
    this.http = stream.http
    this.address = stream.http.config.address
    this.#stream = stream
    this.#isTracked = isTracked
  }

  get baton(): string | null {
    return this.#stream.state.baton
  }

  /** Called just before a request is sent. */
  recordSend(): void {
    this.lastSending = { sentAt: this.http.clock.now(), continuesStream: this.baton !== null }
  }

  /**
   * Sends one request. Never rejects.
   * @param lock how it uses the write lock
   */
  async send(request: SqlRequest, close: boolean, lock: LockUse): Promise<SendResult<StreamResults>> {
    const { http } = this
    const { lifetime, server } = http
    const isNew = this.baton === null
    const isCounted = isNew && !this.#isTracked
    if (isCounted) {
      try {
        lifetime.begin()
      } catch (error) {
        return notSent(error)
      }
    }
    const { calls } = request
    const { deadline } = calls.reduce((a, b) => (b.deadline.endsAt < a.deadline.endsAt ? b : a))
    const signals = calls.flatMap(({ options }) => options.signal ?? [])
    const joinedSignals = signals.length > 1 ? joinSignals(signals) : null
    const signal = joinedSignals?.signal ?? signals[0]
    const sending = { request, close, lock, deadline, signal }
    const isBatch = calls[0]?.scope !== 'autocommit'
    let result = server.isExecuteOnly && isBatch ? null : await this.post(sending)
    // another call may have detected `/v3` in the meantime
    if (isNew && result && !result.isOk && isUnsupportedPath(result.error) && !server.hasV3) {
      this.#V2Guard = (await import('../codec/v2-guard.ts')).V2Guard
      result = await this.post(sending)
    }
    if (
      !result ||
      (isBatch &&
        !result.isOk &&
        server.isExecuteOnly !== false &&
        (result.error as Partial<HttpError>).status === 400)
    ) {
      const { sendExecutes } = await import('./execute-only.ts')
      result = await sendExecutes(this, sending, result)
    }
    joinedSignals?.stop()
    if (!result.isOk && result.readLateResponse) this.#stream.awaitLate(result.readLateResponse())
    if (isCounted) lifetime.end()
    return result
  }

  /** Sends operations on the stream. @param encode encodes them; by default those of the request */
  post(
    { close, deadline, lock: { mayHoldLock, permit }, request, signal }: Sending,
    encode?: Encode,
  ): Promise<SendResult<StreamResults>> {
    const { http, baton } = this
    if (baton === null) this.#V2Guard ??= http.server.V2Guard
    const V2Guard = this.#V2Guard
    // every attempt has the same steps: the response to an earlier one may be read last
    const { evaluatesConditions } = http.server
    return http.exchange(
      `/v${V2Guard ? 2 : 3}/pipeline`,
      (index) => {
        this.recordSend()
        const guard = V2Guard
          ? new V2Guard(evaluatesConditions ? 'commit' : 'begin')
          : evaluatesConditions
            ? V3_GUARD
            : UNPROVEN_V3_GUARD
        const operations = encode?.(index) ?? [request.encode(guard, index)]
        return pipelineBody(close ? [...operations, CLOSE_REQUEST] : operations, baton)
      },
      {
        deadline,
        signal,
        limiter: baton === null ? (mayHoldLock ? http.writes : http.reads) : null,
        needsIndex: request.isFirst,
        mayOmitIndex: baton === null && request.isReadOnly,
        policy: choosePolicy(request, baton, mayHoldLock),
        calls: request.calls,
        inTransaction: request.calls[0]?.scope === 'transaction',
        permit,
      },
      (text) => this.#read(text, close),
      this.address,
    )
  }

  #read(text: string, close: boolean): StreamResults {
    const { config, replica, server } = this.http
    const response = decodePipeline(text)
    const { baton, base_url: baseUrl, results } = response
    this.#stream.setBaton(close ? null : (baton ?? null))
    // a baton on `/v3` proves that the server supports it; `/v2` is used only if `/v3` was not found
    if (this.#V2Guard) server.V2Guard = this.#V2Guard
    else server.hasV3 ||= this.baton !== null
    this.address = (baseUrl && followBaseUrl(baseUrl, config)) || this.address
    replica.record(readReplicationIndex(response))
    return results
  }

  /** Closes the stream. Never rejects. */
  async close(): Promise<void> {
    const { http } = this
    const body = pipelineBody([CLOSE_REQUEST], this.baton)
    // a request that is aborted earlier could leave the write lock held
    const timeoutMs = Math.max(http.config.requestTimeoutMs, CLOSE_TIMEOUT_MS)
    // aborted only when the client is closed: an abort creates a DOMException with a stack, a fifth of a transaction's CPU time
    const controller = new AbortController()
    const { signal } = controller
    const options = { deadline: http.deadline(timeoutMs), signal, limiter: null, policy: CLOSE }
    const response = http.exchange(
      `/v${this.#V2Guard ? 2 : 3}/pipeline`,
      () => body,
      options,
      () => {},
      this.address,
    )
    http.lifetime.addBackground(response, () => controller.abort())
    // not retried, with or without a response
    await response
  }
}

/** Whether the server does not support the path. A 404 for another reason has a JSON body. */
export const isUnsupportedPath = (error: unknown): boolean =>
  error instanceof HttpError && error.status === 404 && error.body[0] !== '{'

/**
 * Returns the policy of a request on a stream.
 * @param mayHoldLock whether the stream holds the write lock or the request may acquire it
 */
export function choosePolicy(
  { isReadOnly }: SqlRequest,
  baton: string | null,
  mayHoldLock: boolean,
): RequestPolicy {
  if (mayHoldLock) return WRITE
  if (!isReadOnly) return CONCURRENT
  return baton === null ? READ : CONTINUE
}
