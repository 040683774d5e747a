import { CLOSE, decodePipeline, pipelineBody, replicationIndexOf } from '../codec/pipeline.ts'
import { type Address, followBaseUrl } from '../config.ts'
import { HttpError } from '../errors.ts'
import type { Http, SendOptions } from '../http/http.ts'
import type { OpenStream } from '../http/lifetime.ts'
import { sendWithIndex } from '../http/replica-read.ts'
import { CLOSE_TIMEOUT_MS } from '../limits.ts'
import type { WireStreamResult } from '../wire.ts'
import type { SqlRequest } from './sql-request.ts'

/** The server's side of a stream: the baton that continues it, and the address and protocol version it is bound to. */
export class StreamConnection implements OpenStream {
  readonly http: Http
  address: Address
  lastSql: string | undefined
  /** Whether the last request has left. */
  isSent = false
  /** Closes the stream when the client is closed. */
  abandon: () => Promise<void> = async () => {}
  /** Whether the last request failed, so that nobody should wait for the next. */
  isBroken = false
  readonly #belongsToCall: boolean
  #baton: string | null = null
  #isV3 = true
  /** A request that was given up, until its stream is closed. */
  #late: Promise<void> | null = null

  /** @param belongsToCall whether it is opened by a call that the client knows of */
  constructor(http: Http, belongsToCall = false) {
    this.http = http
    this.address = http.config.address
    this.#belongsToCall = belongsToCall
  }

  /** Continues the stream; null when there is none on the server, as far as it is known. */
  get baton(): string | null {
    return this.#baton
  }

  set baton(baton: string | null) {
    this.#baton = baton
    this.http.lifetime.noteStream(this, baton !== null)
  }

  /** Whether a request can have the server itself check for the transaction. */
  get isV3(): boolean {
    return this.#isV3 && this.http.server.hasV3 !== false
  }

  /**
   * Sends one request. A server that turns out to have no `/v3` gets it once more on `/v2`.
   * @param holdsLock whether the stream has the write lock, or may get it by this request
   */
  async send(request: SqlRequest, close: boolean, holdsLock: boolean): Promise<WireStreamResult | undefined> {
    const { server, lifetime } = this.http
    this.isSent = false
    const isNew = this.#baton === null
    if (!isNew) return this.#read(await this.#post(request, close, holdsLock), close)
    this.#isV3 = server.hasV3 ?? true
    lifetime.begin(this.#belongsToCall)
    try {
      let text: string
      try {
        text = await this.#post(request, close, holdsLock)
      } catch (error) {
        const isMissing = error instanceof HttpError && error.status === 404 && !error.body
        // others may have found it out meanwhile
        if (!isMissing || !this.#isV3 || server.hasV3 === true) throw error
        this.#isV3 = false
        text = await this.#post(request, close, holdsLock)
      }
      server.hasV3 = this.#isV3
      return this.#read(text, close)
    } finally {
      lifetime.end()
    }
  }

  /** Closes the stream, after a request that was given up and is still under way. Never rejects. */
  async end(): Promise<void> {
    await this.#late
    await this.#close()
  }

  async #close(timeoutMs?: number): Promise<void> {
    const { http } = this
    if (this.#baton === null) return
    const body = pipelineBody([CLOSE], this.#baton)
    const options = { deadline: http.deadline(timeoutMs), lane: null, endsStream: true }
    const done = http.post(this.#path, body, options, this.address).catch(() => {})
    http.lifetime.addBackground(done)
    await done
    // answered or not: nobody will ask for it again
    this.baton = null
  }

  #read(text: string, close: boolean): WireStreamResult | undefined {
    const { config, server } = this.http
    const response = decodePipeline(text)
    const { baton, base_url: baseUrl, results } = response
    this.baton = close ? null : (baton ?? null)
    this.address = (baseUrl && followBaseUrl(baseUrl, config)) || this.address
    server.sawIndex(replicationIndexOf(response))
    return results[0]
  }

  get #path(): string {
    return `/v${this.#isV3 ? 3 : 2}/pipeline`
  }

  #post(request: SqlRequest, close: boolean, holdsLock: boolean): Promise<string> {
    const { http } = this
    const { baton } = this
    this.lastSql = request.lastSql ?? this.lastSql
    const send = (index: string | null, options: SendOptions): Promise<string> => {
      const requests = [request.encode(this.#isV3, index)]
      if (close) requests.push(CLOSE)
      return http.post(
        this.#path,
        pipelineBody(requests, baton),
        {
          ...options,
          lane: baton === null ? (holdsLock ? http.writes : http.reads) : null,
          onLate: holdsLock ? (answer) => this.#follow(answer, close) : undefined,
        },
        this.address,
      )
    }
    const onSend = (): void => {
      this.isSent = true
    }
    const options = { ...request.sendOptions, onSend }
    return request.isFirst
      ? sendWithIndex(http, request.isRead && baton === null, options, send)
      : send(null, options)
  }

  /** Closes the stream of a request that was given up, when its answer is there. */
  #follow(answer: Promise<string>, close: boolean): Promise<void> {
    // nobody else may continue it meanwhile
    const last = this.#baton
    this.baton = null
    const follow = async (): Promise<void> => {
      try {
        this.#read(await answer, close)
      } catch {
        this.baton = last
      }
      await this.#close(CLOSE_TIMEOUT_MS)
    }
    this.#late = follow()
    return this.#late
  }
}
