import { CONNECTIONS, REQUEST_TIMEOUT_MS } from './limits.ts'
import type { Fetch } from './transport/transport.ts'
import { encodeBase64, type IntMode } from './value.ts'

/** Settings of a client. Copied when the client is made. */
export interface ClientConfig {
  /** `libsql://`, `https://` or `http://`, with port and base path if needed; may carry `?authToken=` and `?tls=0`. */
  readonly url: string | URL
  /** Database token, or a function that returns one; it is asked before every request. An empty one is none. */
  readonly authToken?: string | (() => string | Promise<string>) | undefined
  /** How 64-bit integers come back. @default 'auto' */
  readonly intMode?: IntMode | undefined
  /** Longest time for one call in ms: queueing, connecting, the statements and the answer's body. @default 30000 */
  readonly requestTimeoutMs?: number | undefined
  /** Sends the requests in place of the platform's own HTTP client. */
  readonly fetch?: Fetch | undefined
  /** Headers added to every request, for proxies and encryption keys. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Database on a libsql-server whose host name does not tell it; sent as `x-namespace-bin`. */
  readonly namespace?: string | undefined
  /**
   * Hosts besides the URL's own where a server may ask to go on with a stream (`base_url`), such as `eu.example.com` or
   * `*.example.com`. The token is sent to no other host.
   */
  readonly allowedHosts?: readonly string[] | undefined
  /** HTTP connections opened at most (node only; elsewhere the platform decides). @default 64 */
  readonly connections?: number | undefined
}

const TIMEOUT_WORDS = 'a positive number of milliseconds, or Infinity'

/** Where a server is: scheme, host and port, and the path in front of every route. */
export interface Address {
  readonly origin: string
  readonly basePath: string
}

export interface ResolvedConfig {
  readonly address: Address
  readonly authToken: ClientConfig['authToken']
  readonly intMode: IntMode
  readonly requestTimeoutMs: number
  readonly fetch: Fetch | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly allowedHosts: readonly string[]
  readonly connections: number
}

const isFunction = (value: unknown): boolean => typeof value === 'function'
const isTimeout = (value: unknown): boolean =>
  Number(value) > 0 && (Number(value) < 2 ** 31 || value === Infinity)

/** What each option takes: a check, and the words for it. */
const OPTIONS: Readonly<Record<keyof ClientConfig, readonly [(value: unknown) => unknown, string]>> = {
  url: [() => true, ''],
  authToken: [
    (value) => typeof value === 'string' || isFunction(value),
    'a string or a function that returns one',
  ],
  intMode: [
    (value) => ['auto', 'number', 'bigint', 'string'].includes(value as string),
    'auto, number, bigint or string',
  ],
  requestTimeoutMs: [isTimeout, TIMEOUT_WORDS],
  fetch: [isFunction, 'a function'],
  headers: [(value) => typeof value === 'object', 'an object'],
  namespace: [(value) => typeof value === 'string', 'a string'],
  allowedHosts: [Array.isArray, 'an array'],
  connections: [(value) => Number.isInteger(value) && Number(value) > 0, 'an integer from 1 up'],
}

/** Checks a configuration and fills in the defaults. @throws TypeError that names the option and the remedy */
export function resolveConfig(config: ClientConfig): ResolvedConfig {
  for (const [name, value] of Object.entries(config)) {
    if (!Object.hasOwn(OPTIONS, name)) throw new TypeError(unknownOption(name))
    const [check, words] = OPTIONS[name as keyof ClientConfig]
    if (value !== undefined && !check(value)) throw new TypeError(`${name} must be ${words}`)
  }
  const { address, token } = parseUrl(String(config.url))
  const headers: Record<string, string> = {}
  if (config.namespace !== undefined) {
    headers['x-namespace-bin'] = encodeBase64(new TextEncoder().encode(config.namespace)).replace(/=+$/, '')
  }
  for (const [name, value] of Object.entries(config.headers ?? {})) headers[name.toLowerCase()] = value
  return {
    address,
    authToken: config.authToken || token,
    intMode: config.intMode ?? 'auto',
    requestTimeoutMs: config.requestTimeoutMs ?? REQUEST_TIMEOUT_MS,
    fetch: config.fetch,
    headers,
    allowedHosts: config.allowedHosts?.slice() ?? [],
    connections: config.connections ?? CONNECTIONS,
  }
}

/** @throws TypeError when it is no time in ms; Infinity means no limit */
export function checkTimeout(value: number): void {
  if (!isTimeout(value)) throw new TypeError(`timeoutMs must be ${TIMEOUT_WORDS}`)
}

const unknownOption = (name: string): string =>
  `unknown option ${name}${name.startsWith('sync') ? ': there is no local copy to keep in step; leave it out, every query goes to the server' : ''}`

// Never put the URL itself into a message: it may carry a token.
function parseUrl(text: string): { address: Address; token: string | undefined } {
  const [, given = '', rest] = /^(libsql|https?):(\/\/.*)$/i.exec(text) ?? []
  const scheme = given.toLowerCase()
  const isPlain = scheme === 'http' || (scheme === 'libsql' && /[?&]tls=0(&|$)/.test(rest ?? ''))
  // under a scheme that URL does not know it would find neither host nor port
  const known = `http${isPlain ? '' : 's'}:${rest}`
  if (rest === undefined || !URL.canParse(known)) {
    throw new TypeError(
      'url must be libsql://…, https://… or http://…; for a file or :memory: run `npx baton dev` and use the URL that it prints; in place of ws: use http:',
    )
  }
  const { origin, pathname, searchParams, username, hash } = new URL(known)
  const isUnknown = (name: string): boolean =>
    name !== 'authToken' && (name !== 'tls' || searchParams.get(name) !== (isPlain ? '0' : '1'))
  const names = [...searchParams.keys()].filter(isUnknown)
  if (names.length > 0 || username || hash) {
    throw new TypeError(
      `url has a part that it cannot have: ${names[0] ?? (username ? 'a user name' : 'a fragment')}`,
    )
  }
  return {
    address: { origin, basePath: withoutEndSlash(pathname) },
    token: searchParams.get('authToken') ?? undefined,
  }
}

/** Address that a server names for the rest of a stream; null when it is not one that the token may go to. */
export function followBaseUrl(baseUrl: string, { address, allowedHosts }: ResolvedConfig): Address | null {
  if (!URL.canParse(baseUrl)) return null
  const { origin, protocol, host, pathname } = new URL(baseUrl)
  const allows = (pattern: string): boolean =>
    pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern
  const isAllowed =
    origin === address.origin || (address.origin.startsWith(`${protocol}//`) && allowedHosts.some(allows))
  return isAllowed ? { origin, basePath: withoutEndSlash(pathname) } : null
}

const withoutEndSlash = (path: string): string => path.replace(/\/+$/, '')
