import { checkOption, checkOptions, NON_NEGATIVE_INTEGER, type RulesOf, TIME } from '@batonsql/options'
import { parseUrl } from './path.ts'
import { checkPlatformToken, type PlatformToken } from './token.ts'

/** The part of `fetch` that the platform client uses. Any implementation of `fetch` fits. */
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

/**
 * Event passed to `observe` for each attempt of a call. Contains no token; only the `error` of a `retry` contains the headers and
 * body of a response. Times are in ms.
 */
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
      /** Null if there was no response. */
      readonly status: number | null
      readonly requestId: string | null
      /** Time from the request to the end of the body. */
      readonly durationMs: number
    }
  /** The request is retried after `delayMs`. */
  | { readonly type: 'retry'; readonly delayMs: number; readonly error: unknown }

/** Options of a platform client, copied when the client is created. */
export interface PlatformConfig {
  /** API token, or a function that returns one; called before every attempt. An error of the function rejects the call unchanged. */
  readonly token: PlatformToken | (() => PlatformToken | Promise<PlatformToken>)
  /** Slug of the organization, or of the personal account, that calls refer to. See also `forOrganization`. */
  readonly organization?: string | undefined
  /** URL of the API; may include a path prefix. @default 'https://api.turso.tech' */
  readonly url?: string | URL | undefined
  /** Timeout of a call in ms, including token, connection, response and delays before retries. @default 60000 */
  readonly requestTimeoutMs?: number | undefined
  /** Sends the requests, instead of the runtime's own `fetch`. */
  readonly fetch?: PlatformFetch | undefined
  /** Headers added to every request: an object, `Headers`, or pairs. */
  readonly headers?: Readonly<Record<string, string>> | Iterable<readonly [string, string]> | undefined
  /** Name of your program, which precedes Baton's in the header `user-agent`. */
  readonly userAgent?: string | undefined
  /**
   * Number of retries where they are safe: idempotent requests after a network error or HTTP 408, 429, 502–504; all others after
   * 429, or if no connection was made. 0 disables retries.
   * @default 2
   */
  readonly maxRetries?: number | undefined
  /**
   * Receives an event for each attempt. An error that it throws does not affect the call: the first one is emitted as a
   * process warning, or printed with `console.warn` on platforms without them.
   */
  readonly observe?: ((event: PlatformEvent) => void) | undefined
}

/** Options of a call. */
export interface PlatformCallOptions {
  /** Aborts the call, which rejects with the code `ABORTED` and the signal's reason as its cause. */
  readonly signal?: AbortSignal | undefined
  /** Timeout in ms. Applies to each request if a call sends several, as `ensure` and lists do. @default `requestTimeoutMs` */
  readonly timeoutMs?: number | undefined
}

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
  maxRetries: NON_NEGATIVE_INTEGER,
  observe: 'function',
}

const USER_AGENT = 'batonsql-platform'

/** Checks a configuration and applies defaults. @throws TypeError with the option and how to fix it */
export function resolveConfig(config: PlatformConfig): ResolvedConfig {
  checkOptions(config, RULES)
  const { token, url = 'https://api.turso.tech', userAgent, headers = {} } = config
  if (typeof token !== 'function') checkPlatformToken(token)
  const sentHeaders: Record<string, string> = {
    'user-agent': userAgent ? `${userAgent} ${USER_AGENT}` : USER_AGENT,
  }
  for (const [name, value] of Symbol.iterator in headers ? headers : Object.entries(headers))
    sentHeaders[name.toLowerCase()] = value
  for (const [name, value] of Object.entries(sentHeaders)) {
    checkOption(`the header ${name}`, value, 'string')
    // checked here because the platform's own error may print the value, which may be a key
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || !/^[\t -~\x80-\xff]*$/.test(value))
      throw new TypeError(`the header ${name} contains invalid characters`)
  }
  return {
    ...config,
    url: parseUrl(url),
    fetch: config.fetch ?? ((address, init) => fetch(address, init)),
    requestTimeoutMs: config.requestTimeoutMs ?? 60_000,
    maxRetries: config.maxRetries ?? 2,
    headers: sentHeaders,
  }
}
