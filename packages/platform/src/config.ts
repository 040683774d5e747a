import { checkOptions, FROM_0, type RulesOf, TIME } from './check-options.ts'
import { parseUrl } from './path.ts'
import { checkPlatformToken, type PlatformToken } from './token.ts'

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

/** What `observe` hears of each attempt of a call. No event holds a token, a header or a body. Times are in ms. */
export type PlatformEvent = AttemptEvent & {
  readonly method: string
  /** Path with its query, without the base URL. */
  readonly path: string
  /** From 1. */
  readonly attempt: number
}

export type AttemptEvent =
  | { readonly type: 'request:start' }
  | {
      readonly type: 'request'
      /** Null when there was no answer. */
      readonly status: number | null
      readonly requestId: string | null
      /** From the request to the end of the body. */
      readonly durationMs: number
    }
  /** The request is sent once more after `delayMs`. */
  | { readonly type: 'retry'; readonly delayMs: number; readonly error: unknown }

/** Settings of a platform client. Copied when the client is made. */
export interface PlatformConfig {
  /** API token, or a function that returns one; it is asked before every attempt. */
  readonly token: PlatformToken | (() => PlatformToken | Promise<PlatformToken>)
  /** Slug of the organization, or of the personal account, that the calls are about. See also `forOrganization`. */
  readonly organization?: string | undefined
  /** Where the API is; may have a path in front of its routes. @default 'https://api.turso.tech' */
  readonly url?: string | URL | undefined
  /** Longest time for one call in ms: token, connecting, answer, and the waits before it is sent again. @default 60000 */
  readonly requestTimeoutMs?: number | undefined
  /** Sends the requests in place of the platform's own `fetch`. */
  readonly fetch?: PlatformFetch | undefined
  /** Headers added to every request: an object, `Headers`, or pairs. */
  readonly headers?: Readonly<Record<string, string>> | Iterable<readonly [string, string]> | undefined
  /** Name of your program, put before Baton's own in the header `user-agent`. */
  readonly userAgent?: string | undefined
  /**
   * How often a request is sent again when that can do no harm: reads, deletes and settings after a failure on the way or
   * HTTP 408, 429, 502–504; everything else after 429, or when no connection was made. 0 = never.
   * @default 2
   */
  readonly maxRetries?: number | undefined
  /** Called with events about each attempt. What it throws comes up as an uncaught exception, not in the call. */
  readonly observe?: ((event: PlatformEvent) => void) | undefined
}

/** Settings of one call. */
export interface PlatformCallOptions {
  /** Ends the call; it rejects with the code `ABORTED` and the signal's reason as its cause. */
  readonly signal?: AbortSignal | undefined
  /** Longest time for the call in ms. @default the client's `requestTimeoutMs` */
  readonly timeoutMs?: number | undefined
}

/** A configuration that was checked, with its defaults. */
export type ResolvedConfig = Omit<PlatformConfig, 'url' | 'headers'> & {
  readonly url: string
  readonly fetch: PlatformFetch
  readonly requestTimeoutMs: number
  readonly maxRetries: number
  readonly headers: Readonly<Record<string, string>>
}

const RULES: RulesOf<PlatformConfig> = {
  token: 'string or function',
  organization: 'string',
  url: 'string or object',
  requestTimeoutMs: TIME,
  fetch: 'function',
  headers: 'object',
  userAgent: 'string',
  maxRetries: FROM_0,
  observe: 'function',
}

const USER_AGENT = 'batonsql-platform'

/** Checks a configuration and fills in the defaults. @throws TypeError that names the option and the remedy */
export function resolveConfig(config: PlatformConfig): ResolvedConfig {
  checkOptions(config, RULES)
  const { token, url = 'https://api.turso.tech', userAgent, headers = {} } = config
  if (typeof token !== 'function') checkPlatformToken(token)
  const pairs = Symbol.iterator in headers ? [...headers] : Object.entries(headers)
  return {
    ...config,
    url: parseUrl(url),
    fetch: config.fetch ?? ((address, init) => fetch(address, init)),
    requestTimeoutMs: config.requestTimeoutMs ?? 60_000,
    maxRetries: config.maxRetries ?? 2,
    headers: {
      'user-agent': userAgent ? `${userAgent} ${USER_AGENT}` : USER_AGENT,
      ...Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value])),
    },
  }
}
