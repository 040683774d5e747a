import type { AttemptEvent, PlatformCallOptions, ResolvedConfig } from './config.ts'
import { hintFor, parseRejection, readRequestId } from './error-response.ts'
import { describeFailure, wasNeverConnected } from './fetch-failure.ts'
import { emit } from './observer.ts'
import { type Query, queryText } from './path.ts'
import { type CallResult, type PlatformCall, type PlatformResponse, toPlatformCall } from './platform-call.ts'
import { PlatformError, type PlatformErrorDetails } from './platform-error.ts'
import type { ParsedResponse, Reader } from './readers.ts'
import { readRetryAfter, retryDelayMs } from './retry-rules.ts'
import { TimeLimit } from './time-limit.ts'
import { checkPlatformToken, redact } from './token.ts'

export interface Request {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path with encoded segments. */
  readonly path: string
  readonly query?: Query | undefined
  /** Sent as a form if it is `FormData`, otherwise as JSON. If omitted, there is no body. */
  readonly body?: object | undefined
  /** Whether the request may be executed twice. @default true for GET, PUT and DELETE */
  readonly isIdempotent?: boolean | undefined
}

/**
 * Returns the result of a call whose attempt failed with this error; null if the attempt counts as failed.
 * @param mayHaveRun whether an earlier attempt may have been applied
 */
type Accept<T> = (error: PlatformError, mayHaveRun: boolean) => T | null

export const call = <T>(
  config: ResolvedConfig,
  request: Request,
  options: PlatformCallOptions,
  read: Reader<T>,
  accept: Accept<T> = () => null,
): PlatformCall<T> => toPlatformCall(new Call(config, request, options).run(read, accept))

/** Maximum lengths of the response text that an error keeps, and of the part that its message shows. */
const ERROR_TEXT_LENGTH = 4_096
const MESSAGE_TEXT_LENGTH = 500

interface ReceivedResponse {
  readonly response: PlatformResponse
  readonly text: string
}

/** A call in flight: its attempts, with token, time limit, events and errors. */
class Call {
  readonly #config: ResolvedConfig
  readonly #request: Request
  readonly #path: string
  readonly #body: string | FormData | undefined
  readonly #limit: TimeLimit
  #attempt = 0
  #token = ''
  /** Whether the current attempt may have arrived. */
  #isSent = false
  /** Whether an earlier attempt may have been applied. */
  #mayHaveRun = false

  constructor(config: ResolvedConfig, request: Request, options: PlatformCallOptions) {
    this.#config = config
    this.#request = request
    this.#path = request.path + queryText(request.query ?? {})
    const { body } = request
    this.#body = body === undefined || body instanceof FormData ? body : JSON.stringify(body)
    const { signal, timeoutMs = config.requestTimeoutMs } = options
    this.#limit = new TimeLimit({
      timeoutMs,
      signal,
      onTimeout: () => this.#error(`received no response within ${timeoutMs} ms`, { code: 'TIMEOUT' }),
      onAbort: (cause) => this.#error('was aborted', { code: 'ABORTED', cause }),
    })
  }

  async run<T>(read: Reader<T>, accept: Accept<T>): Promise<CallResult<T>> {
    try {
      for (;;) {
        this.#attempt += 1
        try {
          const { response, text } = await this.#send()
          return { data: read(this.#parse(response, text)), response }
        } catch (error) {
          if (!(error instanceof PlatformError)) throw error
          const data = accept(error, this.#mayHaveRun)
          if (data === null) await this.#waitForNext(error)
          else {
            const { status, headers, requestId } = error
            return { data, response: { status: status ?? 0, headers, requestId, attempts: this.#attempt } }
          }
        }
      }
    } finally {
      this.#limit.stop()
    }
  }

  /** Waits before the next attempt. @throws the error if there is no next attempt */
  async #waitForNext(error: PlatformError): Promise<void> {
    const { method, isIdempotent = method !== 'POST' && method !== 'PATCH' } = this.#request
    const delayMs = retryDelayMs(error, isIdempotent, this.#attempt)
    if (this.#attempt > this.#config.maxRetries || delayMs === null || delayMs >= this.#limit.remainingMs)
      throw error
    this.#mayHaveRun ||= error.outcome === 'unknown'
    this.#isSent = false
    this.#emit({ type: 'retry', delayMs, error })
    await this.#limit.wait(delayMs)
  }

  async #send(): Promise<ReceivedResponse> {
    const { token } = this.#config
    const currentToken =
      typeof token === 'function' ? await this.#limit.within(async () => await token()) : token
    checkPlatformToken(currentToken)
    this.#token = currentToken
    this.#emit({ type: 'request:start' })
    const startedAt = performance.now()
    let response: PlatformResponse | null = null
    try {
      const received = await this.#limit.within((signal) => this.#exchange(signal))
      ;({ response } = received)
      if (response.status < 200 || response.status > 299) throw this.#rejectionError(received)
      return received
    } finally {
      const { status, requestId } = response ?? { status: null, requestId: null }
      this.#emit({ type: 'request', status, requestId, durationMs: performance.now() - startedAt })
    }
  }

  async #exchange(signal: AbortSignal): Promise<ReceivedResponse> {
    const { url, fetch, headers } = this.#config
    const { method } = this.#request
    const body = this.#body
    this.#isSent = true
    try {
      const response = await fetch(url + this.#path, {
        method,
        headers: {
          accept: 'application/json',
          ...(typeof body === 'string' && { 'content-type': 'application/json' }),
          ...headers,
          authorization: `Bearer ${this.#token}`,
        },
        ...(body !== undefined && { body }),
        signal,
        redirect: 'manual', // the token is sent only to the configured host
      })
      const receivedHeaders: Record<string, string> = {}
      response.headers.forEach((value, name) => {
        // a cookie may be a credential, and errors show none
        if (name !== 'set-cookie') receivedHeaders[name] = redact(value, this.#token)
      })
      const { status } = response
      const text = await response.text()
      const requestId = readRequestId(receivedHeaders)
      return { response: { status, headers: receivedHeaders, requestId, attempts: this.#attempt }, text }
    } catch (error) {
      const message = describeFailure(error, this.#token)
      const outcome = !this.#mayHaveRun && wasNeverConnected(error) ? 'not_applied' : 'unknown'
      throw this.#error(`received no response: ${message}`, { code: 'NETWORK', outcome })
    }
  }

  #parse(response: PlatformResponse, text: string): ParsedResponse {
    const fail = (problem: string): PlatformError => {
      const message = `returned HTTP ${response.status} with a body that ${problem}`
      return this.#error(message, { ...response, code: 'DECODE', outcome: 'unknown' })
    }
    if (text.trim() === '') return { body: undefined, fail }
    try {
      return { body: JSON.parse(text), fail }
    } catch {
      // the parser's message contains a part of the text, which may be a secret
      const type = response.headers['content-type'] ?? 'no type'
      throw fail(`is not JSON but ${text.length} characters of ${type}`)
    }
  }

  #rejectionError({ response, text }: ReceivedResponse): PlatformError {
    const { status, headers } = response
    const body = redact(text, this.#token).slice(0, ERROR_TEXT_LENGTH)
    const rejection = parseRejection(body)
    // the message does not show an HTML page
    const plainText = /^\s*</.test(body) ? '' : body.trim()
    const shownReason = rejection.reason ?? plainText
    const hint = hintFor(status, shownReason)
    const message = `returned HTTP ${status}${shownReason && `: ${shownReason.slice(0, MESSAGE_TEXT_LENGTH)}`}${hint && ` (${hint})`}`
    // 501: the server has no such feature
    const isRejected = status < 500 ? status !== 408 : status === 501
    const outcome = isRejected && !this.#mayHaveRun ? 'not_applied' : 'unknown'
    const retryAfterMs = readRetryAfter(headers)
    return this.#error(message, {
      ...response,
      ...rejection,
      code: 'HTTP_STATUS',
      body,
      retryAfterMs,
      outcome,
    })
  }

  #error(
    problem: string,
    details: Pick<PlatformErrorDetails, 'code'> & Partial<PlatformErrorDetails>,
  ): PlatformError {
    const { method } = this.#request
    const path = this.#path
    const outcome = this.#isSent || this.#mayHaveRun ? 'unknown' : 'not_applied'
    return new PlatformError({ outcome, ...details, method, path, message: `${method} ${path} ${problem}` })
  }

  #emit(event: AttemptEvent): void {
    const { method } = this.#request
    const { observe } = this.#config
    if (observe) emit(observe, { ...event, method, path: this.#path, attempt: this.#attempt })
  }
}
