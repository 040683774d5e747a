import { CLOSE, decodePipeline, pipelineBody, replicationIndexOf } from '../codec/pipeline.ts'
import { type Address, followBaseUrl } from '../config.ts'
import { HttpError } from '../errors.ts'
import type { Http, SendOptions } from '../http/http.ts'
import { joinSignals } from '../http/join-signals.ts'
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
  /** Whether the last request has left, and may have run. */
  readonly progress = { isSent: false }
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
    this.progress.isSent = false
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

  async #post(request: SqlRequest, close: boolean, holdsLock: boolean): Promise<string> {
    const { http, baton, progress } = this
    this.lastSql = request.lastSql ?? this.lastSql
    const send = (index: string | null, options: SendOptions): Promise<string> => {
      const requests = [request.encode(this.#isV3, index)]
      if (close) requests.push(CLOSE)
      return http.post(
        this.#path,
        pipelineBody(requests, baton),
        {
          ...options,
          progress,
          lane: baton === null ? (holdsLock ? http.writes : http.reads) : null,
          onLate: holdsLock
            ? (readAnswer) => this.closeAfter(readAnswer().then((text) => this.#batonIn(text, close)))
            : undefined,
        },
        this.address,
      )
    }
    const { deadline, signals } = request
    const joined = signals.length > 1 ? joinSignals(signals) : null
    const options = { deadline, signal: joined?.signal ?? signals[0] }
    const isRead = request.isRead && baton === null
    try {
      return await (request.isFirst ? sendWithIndex(http, isRead, options, send) : send(null, options))
    } finally {
      joined?.stop()
    }
  }

  #batonIn(text: string, close: boolean): string | null {
    this.#read(text, close)
    return this.baton
  }

  /**
   * Closes the stream of a request that was given up, when its answer is there.
   * @param baton the one in the answer; rejects when there is no answer
   */
  closeAfter(baton: Promise<string | null>): Promise<void> {
    // no other request may continue it meanwhile
    const last = this.#baton
    this.baton = null
    const close = async (): Promise<void> => {
      this.baton = await baton.catch(() => last)
      await this.#close(CLOSE_TIMEOUT_MS)
    }
    this.#late = close()
    return this.#late
  }
}
