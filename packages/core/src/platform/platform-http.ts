import { checkOptions, integerFrom, TIME } from '../base/check-options.ts'
import type { Clock } from '../base/clock.ts'
import { Deadline } from '../base/deadline.ts'
import type { Outcome } from '../base/errors.ts'
import { ERROR_TEXT_LENGTH } from '../base/limits.ts'
import { Waiter } from '../base/waiter.ts'
import { rootMessage } from '../transport/failure.ts'
import { Answer } from './answer.ts'
import { type Answered, PlatformCall, type PlatformResponse } from './platform-call.ts'
import type { PlatformCallOptions, ResolvedPlatformConfig } from './platform-config.ts'
import {
  AbortedError,
  ConnectionError,
  DecodeError,
  errorOfStatus,
  isMissing,
  PlatformError,
  type PlatformErrorDetails,
  TimeoutError,
} from './platform-errors.ts'
import { type PlatformPath, type Query, queryText } from './platform-path.ts'
import { checkPlatformToken, redact } from './platform-token.ts'
import { hintFor, readErrorBody, requestIdOf } from './refusal.ts'
import { readRetryAfter, retryDelayMs, wasNeverConnected } from './retry-rules.ts'

/** What each call takes, and what calls of a kind take besides. */
export const CALL = { signal: 'object', timeoutMs: TIME }
export const REMOVE = { ...CALL, missingOk: 'boolean' }
export const PAGED = { ...CALL, pageSize: integerFrom(1) }

/** One call: what is asked. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: PlatformPath
  readonly query?: Query | undefined
  /** Sent as JSON; a form is sent as it is. Without it there is no body. */
  readonly body?: object | undefined
  /** Whether it does no harm to run it twice. @default what the method says: GET, PUT and DELETE are */
  readonly isRepeatable?: boolean | undefined
}

/** Whether something was deleted. */
export interface Deleted {
  /** False when there was none, which only `missingOk` lets pass. */
  readonly deleted: boolean
  /** Body of the answer; undefined when there was none. */
  readonly raw: unknown
}

export interface RemoveOptions extends PlatformCallOptions {
  /** That it is no error when there is nothing of that name. @default false */
  readonly missingOk?: boolean | undefined
}

/** One call under way: what all of its attempts share. */
interface Call {
  readonly route: Route
  readonly path: string
  readonly deadline: Deadline
  readonly signal: AbortSignal | undefined
  attempt: number
  token: string
  isSent: boolean
  /** An attempt before this one may have taken effect. */
  mayHaveRun: boolean
}

type Details = Pick<PlatformErrorDetails, 'method' | 'path' | 'message'>

interface Received {
  readonly response: PlatformResponse
  readonly text: string
}

/** Sends requests to the platform API: token, deadline, repetition, errors and hooks are put on here. */
export class PlatformHttp {
  readonly config: ResolvedPlatformConfig
  readonly clock: Clock

  constructor(config: ResolvedPlatformConfig, clock: Clock) {
    this.config = config
    this.clock = clock
  }

  /** Slug of the organization of the client. @throws TypeError when it has none */
  get organization(): string {
    const { organization } = this.config
    if (organization === undefined)
      throw new TypeError('this call needs an organization: createPlatformClient({ organization, … })')
    return organization
  }

  /** Sends a request and reads what came. @param read throws a DecodeError for what is not the documented answer */
  call<T>(route: Route, options: PlatformCallOptions, read: (answer: Answer) => T): PlatformCall<T> {
    return PlatformCall.of(this.#run(route, options, read))
  }

  /** Sends a request whose answer says nothing. */
  command(route: Route, options: PlatformCallOptions): PlatformCall<void> {
    return this.call(route, options, () => {})
  }

  /**
   * Deletes. When an answer was lost and there is nothing to delete any more afterwards, it is done; otherwise that is an
   * error, unless `missingOk`.
   */
  remove(route: Route, { missingOk = false, ...options }: RemoveOptions): PlatformCall<Deleted> {
    return PlatformCall.of(
      this.#run<Deleted>(
        route,
        options,
        ({ body }) => ({ deleted: true, raw: body }),
        (error, mayHaveRun) => {
          if (!isMissing(error) || !(missingOk || mayHaveRun)) return null
          return { deleted: mayHaveRun, raw: undefined }
        },
      ),
    )
  }

  async #run<T>(
    route: Route,
    options: PlatformCallOptions,
    read: (answer: Answer) => T,
    accept: (error: PlatformError, mayHaveRun: boolean) => T | null = () => null,
  ): Promise<Answered<T>> {
    checkOptions(options, CALL)
    const { signal, timeoutMs = this.config.timeoutMs } = options
    const deadline = new Deadline(this.clock, timeoutMs)
    const path = route.path + queryText(route.query ?? {})
    const call: Call = {
      route,
      path,
      deadline,
      signal,
      attempt: 0,
      token: '',
      isSent: false,
      mayHaveRun: false,
    }
    for (; ; call.attempt++) {
      try {
        const { response, text } = await this.#attempt(call)
        return { data: this.#read(call, { response, text }, read), response }
      } catch (error) {
        if (!(error instanceof PlatformError)) throw error
        const accepted = accept(error, call.mayHaveRun)
        if (accepted !== null) return { data: accepted, response: responseOf(error, call) }
        await this.#waitForNext(call, error)
      }
    }
  }

  /** Waits before the next attempt. @throws the error when there must be none */
  async #waitForNext(call: Call, error: PlatformError): Promise<void> {
    const { route, path, attempt, deadline, signal } = call
    const isRepeatable = route.isRepeatable ?? (route.method !== 'POST' && route.method !== 'PATCH')
    const { maxRetries } = this.config
    const delayMs = retryDelayMs(error, { isRepeatable, attempt, maxRetries })
    if (delayMs === null || delayMs >= deadline.leftMs) throw error
    call.mayHaveRun ||= error.outcome === 'unknown'
    this.#tell('onRetry', { method: route.method, path, attempt: attempt + 1, delayMs, error })
    const waiter = new Waiter(this.clock, { ms: delayMs, signal })
    await waiter.promise.catch((reason: unknown) => {
      throw this.#aborted(call, reason)
    })
  }

  async #attempt(call: Call): Promise<Received> {
    const { route, path, attempt } = call
    call.isSent = false
    const { token } = this.config
    const given = typeof token === 'function' ? await this.#within(call, async () => await token()) : token
    checkPlatformToken(given)
    call.token = given
    const event = { method: route.method, path, attempt: attempt + 1 }
    this.#tell('onRequest', event)
    const started = this.clock.now()
    const report = (response: PlatformResponse | null): void =>
      this.#tell('onResponse', {
        ...event,
        status: response?.status ?? null,
        requestId: response?.requestId ?? null,
        durationMs: this.clock.now() - started,
      })
    let received: Received
    try {
      received = await this.#within(call, (signal) => this.#exchange(call, signal))
    } catch (error) {
      report(null)
      throw error
    }
    report(received.response)
    if (received.response.status < 200 || received.response.status > 299) throw this.#refusal(call, received)
    return received
  }

  /** Waits for something no longer than the call may take. */
  async #within<T>(call: Call, start: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal, deadline } = call
    const late = (): Error =>
      new TimeoutError({
        ...this.#failure(call, `got no answer within ${deadline.timeoutMs} ms`),
        code: 'TIMEOUT',
      })
    if (signal?.aborted) throw this.#aborted(call, signal.reason)
    if (deadline.leftMs <= 0) throw late()
    const controller = new AbortController()
    const waiter = new Waiter<T>(this.clock, { ms: deadline.leftMs, signal, late })
    start(controller.signal).then(waiter.resolve, waiter.reject)
    try {
      return await waiter.promise
    } catch (error) {
      if (signal?.aborted && error === signal.reason) throw this.#aborted(call, error)
      throw error
    } finally {
      // also after an answer that is read: aborting does nothing then
      controller.abort()
    }
  }

  async #exchange(call: Call, signal: AbortSignal): Promise<Received> {
    const { route, path, token, attempt } = call
    const { baseUrl, fetch, headers } = this.config
    const { body } = route
    const isForm = body instanceof FormData
    const sent = body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }
    call.isSent = true
    try {
      const answer = await fetch(baseUrl + path, {
        method: route.method,
        headers: {
          accept: 'application/json',
          ...(body === undefined || isForm ? {} : { 'content-type': 'application/json' }),
          ...headers,
          authorization: `Bearer ${token}`,
        },
        ...sent,
        signal,
        redirect: 'manual', // the token goes to the configured host and nowhere else
      })
      const received: Record<string, string> = {}
      answer.headers.forEach((value, name) => {
        if (name !== 'set-cookie') received[name] = redact(value, token)
      })
      const response = {
        status: answer.status,
        headers: received,
        requestId: requestIdOf(received),
        attempts: attempt + 1,
      }
      return { response, text: await answer.text() }
    } catch (error) {
      throw this.#disconnected(call, error)
    }
  }

  #read<T>(call: Call, { response, text }: Received, read: (answer: Answer) => T): T {
    const fail = (what: string): DecodeError =>
      new DecodeError({
        ...this.#details(call, `answered HTTP ${response.status} with a body that ${what}`),
        ...response,
        code: 'DECODE',
        outcome: 'unknown',
      })
    if (text.trim() === '') return read(new Answer(undefined, fail))
    let body: unknown
    try {
      body = JSON.parse(text)
    } catch {
      // the parser's own words have a part of the text, which may be a secret
      throw fail(
        `is not JSON but ${text.length} characters of ${response.headers['content-type'] ?? 'no type'}`,
      )
    }
    return read(new Answer(body, fail))
  }

  #refusal(call: Call, { response, text }: Received): PlatformError {
    const { status, headers } = response
    const safe = redact(text, call.token).slice(0, ERROR_TEXT_LENGTH)
    const { error, code } = readErrorBody(safe)
    const said = error ?? (/^\s*</.test(safe) ? null : safe.trim() || null)
    const hint = hintFor(status, said)
    const words = `answered HTTP ${status}${said ? `: ${said.slice(0, 500)}` : ''}${hint ? ` (${hint})` : ''}`
    return errorOfStatus({
      ...this.#details(call, words),
      ...response,
      reason: error,
      code,
      body: safe,
      retryAfterMs: readRetryAfter(headers),
      outcome: call.mayHaveRun || status >= 500 || status === 408 ? 'unknown' : 'not_applied',
    })
  }

  #disconnected(call: Call, error: unknown): ConnectionError {
    // not with the error of `fetch` as its cause: that may print the request, and the token with it
    const words = redact(rootMessage(error), call.token)
    return new ConnectionError({
      ...this.#details(call, `got no answer: ${words}`),
      code: 'NETWORK',
      outcome: !call.mayHaveRun && wasNeverConnected(error) ? 'not_applied' : 'unknown',
    })
  }

  #aborted(call: Call, reason: unknown): AbortedError {
    return new AbortedError({ ...this.#failure(call, 'was aborted'), code: 'ABORTED', cause: reason })
  }

  #failure(call: Call, words: string): Details & { outcome: Outcome } {
    return {
      ...this.#details(call, words),
      outcome: call.isSent || call.mayHaveRun ? 'unknown' : 'not_applied',
    }
  }

  #details({ route: { method }, path }: Call, words: string): Details {
    return { method, path, message: `${method} ${path} ${words}` }
  }

  #tell<K extends 'onRequest' | 'onResponse' | 'onRetry'>(
    name: K,
    event: Parameters<NonNullable<ResolvedPlatformConfig[K]>>[0],
  ): void {
    try {
      ;(this.config[name] as ((event: unknown) => void) | undefined)?.(event)
    } catch (error) {
      queueMicrotask(() => {
        throw error
      })
    }
  }
}

function responseOf(error: PlatformError, { attempt }: Call): PlatformResponse {
  const { status, headers, requestId } = error
  return { status: status ?? 0, headers, requestId, attempts: attempt + 1 }
}
