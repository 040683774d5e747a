import { checkOptions, integerFrom, type OptionRules, TIME } from '../base/check-options.ts'
import { parseBaseUrl } from './platform-path.ts'
import { checkPlatformToken, type PlatformToken } from './platform-token.ts'

/** The part of `fetch` that the platform client uses, so that any implementation fits. */
export type PlatformFetch = (
  url: string,
  init: {
    method: string
    headers: Record<string, string>
    body?: string | FormData
    signal: AbortSignal
    redirect: 'manual'
  },
) => Promise<{
  readonly status: number
  readonly headers: Pick<Headers, 'get' | 'forEach'>
  text(): Promise<string>
}>

/** A request that leaves. No event holds a token, a header or a body. */
export interface PlatformRequestEvent {
  readonly method: string
  /** Path with its query, without the base URL. */
  readonly path: string
  /** From 1. */
  readonly attempt: number
}

/** An answer, or that there is none. */
export interface PlatformResponseEvent extends PlatformRequestEvent {
  /** Null when there was no answer. */
  readonly status: number | null
  readonly requestId: string | null
  /** From the request to the end of the body. */
  readonly durationMs: number
}

/** A request will be sent again. */
export interface PlatformRetryEvent extends PlatformRequestEvent {
  readonly delayMs: number
  readonly error: unknown
}

/** Settings of a platform client. Copied when the client is made. */
export interface PlatformConfig {
  /** API token, or a function that returns one; it is asked before every attempt. */
  readonly token: PlatformToken | (() => PlatformToken | Promise<PlatformToken>)
  /** Slug of the organization, or of the personal account, that the calls are about. See also `forOrganization`. */
  readonly organization?: string | undefined
  /** Where the API is; may have a path in front of its routes. @default 'https://api.turso.tech' */
  readonly baseUrl?: string | URL | undefined
  /** Sends the requests in place of the platform's own `fetch`. */
  readonly fetch?: PlatformFetch | undefined
  /** Longest time for one call in ms: token, connecting, answer, and the waits before it is sent again. @default 60000 */
  readonly timeoutMs?: number | undefined
  /**
   * How often a request is sent again when that can do no harm: reads, deletes and settings after a failure on the way or
   * HTTP 408, 429, 502–504; everything else after 429, or when no connection was made. 0 = never.
   * @default 2
   */
  readonly maxRetries?: number | undefined
  /** Name of your program, put before Baton's own in the header `user-agent`. */
  readonly userAgent?: string | undefined
  /** Headers added to every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Called before each attempt. What a hook throws comes up as an uncaught exception, not in the call. */
  readonly onRequest?: ((event: PlatformRequestEvent) => void) | undefined
  /** Called after each attempt. */
  readonly onResponse?: ((event: PlatformResponseEvent) => void) | undefined
  /** Called before each wait for another attempt. */
  readonly onRetry?: ((event: PlatformRetryEvent) => void) | undefined
}

/** Settings of one call. */
export interface PlatformCallOptions {
  /** Ends the call; it rejects with an AbortedError whose cause is the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Longest time for the call in ms. @default the client's `timeoutMs` */
  readonly timeoutMs?: number | undefined
}

export type ResolvedPlatformConfig = Omit<PlatformConfig, 'baseUrl' | 'headers'> & {
  readonly baseUrl: string
  readonly fetch: PlatformFetch
  readonly timeoutMs: number
  readonly maxRetries: number
  readonly headers: Readonly<Record<string, string>>
}

const RULES: Readonly<Record<keyof PlatformConfig, string>> = {
  token: 'string or function',
  organization: 'string',
  baseUrl: 'string or object',
  fetch: 'function',
  timeoutMs: TIME,
  maxRetries: integerFrom(0),
  userAgent: 'string',
  headers: 'object',
  onRequest: 'function',
  onResponse: 'function',
  onRetry: 'function',
} satisfies OptionRules

const USER_AGENT = 'batonsql-platform'

/** Checks a configuration and fills in the defaults. @throws TypeError that names the option and the remedy */
export function resolvePlatformConfig(config: PlatformConfig): ResolvedPlatformConfig {
  checkOptions(config, RULES)
  const { token, baseUrl = 'https://api.turso.tech', userAgent, headers = {} } = config
  if (typeof token !== 'function') checkPlatformToken(token)
  return {
    ...config,
    baseUrl: parseBaseUrl(baseUrl),
    fetch: config.fetch ?? ((url, init) => fetch(url, init)),
    timeoutMs: config.timeoutMs ?? 60_000,
    maxRetries: config.maxRetries ?? 2,
    headers: {
      'user-agent': userAgent ? `${userAgent} ${USER_AGENT}` : USER_AGENT,
      ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
    },
  }
}
