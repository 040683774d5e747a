import { type Address, followBaseUrl, type ResolvedConfig } from './config.ts'
import { HttpError } from './errors.ts'
import type { Http } from './http.ts'
import { CLOSE, decodePipeline, pipelineBody } from './pipeline.ts'
import type { SqlRequest } from './request.ts'
import type { WireStreamResult } from './wire.ts'

/** What is known about the server's protocol, shared by the streams of a client. */
export interface ServerProtocol {
  /** False once the server has shown that it has no `/v3/pipeline`. */
  hasV3: boolean | undefined
}

/** The server's side of a stream: the baton that continues it, and the address and protocol version it is bound to. */
export class StreamConnection {
  readonly http: Http
  readonly config: ResolvedConfig
  readonly #server: ServerProtocol
  address: Address
  baton: string | null = null
  lastSql: string | undefined
  #isV3 = true

  constructor(http: Http, config: ResolvedConfig, server: ServerProtocol) {
    this.http = http
    this.config = config
    this.#server = server
    this.address = http.address
  }

  /** Sends one request. A server that turns out to have no `/v3` gets it once more on `/v2`. */
  async send(request: SqlRequest | null, close: boolean): Promise<WireStreamResult | undefined> {
    const isNew = !this.baton
    if (isNew) this.#isV3 = this.#server.hasV3 ?? true
    let text: string
    try {
      text = await this.#post(request, close)
    } catch (error) {
      const isMissing = error instanceof HttpError && error.status === 404 && !error.body
      if (!isMissing || !isNew || this.#server.hasV3 !== undefined) throw error
      this.#isV3 = false
      text = await this.#post(request, close)
    }
    if (isNew) this.#server.hasV3 = this.#isV3
    const { baton, base_url: baseUrl, results } = decodePipeline(text)
    this.baton = close ? null : (baton ?? null)
    this.address = (baseUrl && followBaseUrl(baseUrl, this.config)) || this.address
    return results[0]
  }

  #post(request: SqlRequest | null, close: boolean): Promise<string> {
    const requests = request ? [request.encode(this.#isV3)] : []
    if (close) requests.push(CLOSE)
    this.lastSql = request?.lastSql ?? this.lastSql
    const path = `/v${this.#isV3 ? 3 : 2}/pipeline`
    return this.http.post(path, pipelineBody(requests, this.baton), request?.callOptions(), this.address)
  }
}
