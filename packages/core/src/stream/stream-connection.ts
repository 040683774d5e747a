import { CLOSE, decodePipeline, pipelineBody, replicationIndexOf } from '../codec/pipeline.ts'
import { type Address, followBaseUrl } from '../config.ts'
import { HttpError } from '../errors.ts'
import type { OpenStream } from '../http/concurrency-limiter.ts'
import type { Http } from '../http/http.ts'
import { sendWithIndex } from '../http/replica-read.ts'
import { sleep } from '../http/retry.ts'
import { CLOSE_TIMEOUT_MS } from '../limits.ts'
import type { CallOptions } from '../options.ts'
import type { WireStreamResult } from '../wire.ts'
import type { SqlRequest } from './sql-request.ts'

/** The server's side of a stream: the baton that continues it, and the address and protocol version it is bound to. */
export class StreamConnection implements OpenStream {
  readonly http: Http
  address: Address
  lastSql: string | undefined
  #baton: string | null = null
  #isV3 = true
  #isBusy = false
  /** The bare close that is under way. */
  #ending: Promise<unknown> | null = null
  /** Called when the client is closed while no request is under way. */
  onAbandon: () => void = () => {}

  constructor(http: Http) {
    this.http = http
    this.address = http.config.address
  }

  /** Continues the stream; null when there is none on the server, as far as it is known. */
  get baton(): string | null {
    return this.#baton
  }

  set baton(baton: string | null) {
    this.#baton = baton
    this.http.gate.noteStream(this, baton !== null)
  }

  /** Sends one request. A server that turns out to have no `/v3` gets it once more on `/v2`. */
  async send(request: SqlRequest | null, close: boolean): Promise<WireStreamResult | undefined> {
    const { config, server } = this.http
    const isNew = !this.baton
    if (isNew) this.#isV3 = server.hasV3 ?? true
    let text: string
    this.#isBusy = true
    try {
      const answered = this.#post(request, close)
      if (request === null) this.#ending = answered.catch(() => {})
      text = await answered
    } catch (error) {
      const isMissing = error instanceof HttpError && error.status === 404 && !error.body
      // others may have found it out meanwhile
      if (!isMissing || !isNew || !this.#isV3 || server.hasV3 === true) throw error
      this.#isV3 = false
      text = await this.#post(request, close)
    } finally {
      this.#isBusy = false
    }
    if (isNew) server.hasV3 = this.#isV3
    const response = decodePipeline(text)
    const { baton, base_url: baseUrl, results } = response
    this.baton = close ? null : (baton ?? null)
    this.address = (baseUrl && followBaseUrl(baseUrl, config)) || this.address
    server.sawIndex(replicationIndexOf(response))
    return results[0]
  }

  /** Whether a request can tell the server itself to check for the transaction. */
  get isV3(): boolean {
    return this.#isV3 && this.http.server.hasV3 !== false
  }

  async abandon(): Promise<void> {
    if (this.#ending) await Promise.race([this.#ending, sleep(CLOSE_TIMEOUT_MS)])
    // the server ends one whose client leaves in the middle of a request; what became of a COMMIT its answer tells
    if (this.#isBusy) return
    this.onAbandon()
    if (this.#baton === null) return
    const body = pipelineBody([CLOSE], this.baton)
    const options = { isHeld: true, timeoutMs: CLOSE_TIMEOUT_MS }
    await this.http.post(`/v${this.#isV3 ? 3 : 2}/pipeline`, body, options, this.address).catch(() => {})
  }

  #post(request: SqlRequest | null, close: boolean): Promise<string> {
    this.lastSql = request?.lastSql ?? this.lastSql
    const send = (index: string | null, options?: CallOptions): Promise<string> => {
      const requests = request ? [request.encode(this.#isV3, index)] : []
      if (close) requests.push(CLOSE)
      const path = `/v${this.#isV3 ? 3 : 2}/pipeline`
      const { baton } = this
      return this.http.post(
        path,
        pipelineBody(requests, baton),
        { ...options, isHeld: baton !== null, isRead: request !== null && !request.writes },
        this.address,
      )
    }
    const options = request?.callOptions()
    return request?.isFirst
      ? sendWithIndex(this.http, { ...options, isRead: request.isRead && this.baton === null }, send)
      : send(null, options)
  }
}
