import { encodeBase64 } from '#base64'
import { checkOptions, FROM_0, FROM_1, TIME } from './base/check-options.ts'
import {
  CONCURRENCY,
  MAX_RETRIES,
  QUEUE_LIMIT,
  REQUEST_TIMEOUT_MS,
  TRANSACTION_WINDOW_MS,
  WRITE_LOCK_TIMEOUT_MS,
} from './base/limits.ts'
import type { IntMode } from './codec/value.ts'
import type { Observe } from './observe/events.ts'
import type { Fetch } from './transport/transport.ts'

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
  /** Headers added to every request, for proxies and encryption keys: an object, `Headers`, or pairs. */
  readonly headers?: Readonly<Record<string, string>> | Iterable<readonly [string, string]> | undefined
  /** Database on a libsql-server whose host name does not tell it; sent as `x-namespace-bin`. */
  readonly namespace?: string | undefined
  /**
   * Hosts besides the URL's own where a server may ask to continue a stream (`base_url`), such as `eu.example.com` or
   * `*.example.com`. The token is sent to no other host.
   */
  readonly allowedHosts?: readonly string[] | undefined
  /**
   * How long a transaction may hold the write lock, in ms. When it is idle then, the client closes it, so that others can
   * write; what comes after rejects. Infinity = until the server ends it.
   * @default 5000
   */
  readonly transactionTimeoutMs?: number | undefined
  /**
   * How long a transaction may wait, in ms, until the others of this client that were there before it are through. Only
   * then does the time of its first statement begin. Infinity = as long as it takes.
   * @default 60000
   */
  readonly writeLockTimeoutMs?: number | undefined
  /**
   * How often a call is sent again when that can do no harm: reads after a failure on the way, writes that provably never
   * ran. 0 = never.
   * @default 2
   */
  readonly maxRetries?: number | undefined
  /**
   * How many reads may be under way at once, and how many requests that may have to wait for the write lock; others queue,
   * reads in a queue of their own. What continues a transaction does not count, so that it can always be ended.
   * @default 64
   */
  readonly concurrency?: number | undefined
  /** How many calls may wait in each queue, and in one transaction; more reject with `QUEUE_FULL`. @default 10000 */
  readonly queueLimit?: number | undefined
  /**
   * Whether a read waits until the replica that answers it has got what this client wrote or saw before.
   * @default true
   */
  readonly readYourWrites?: boolean | undefined
  /** The same for what another process wrote: its client's `replicationIndex`. */
  readonly minReplicationIndex?: string | number | bigint | undefined
  /**
   * Lets statements outside of transactions that are issued in the same tick of the event loop share requests: many short
   * ones are several times as fast. Each has its own result; one that takes long holds up those behind it. SELECT, INSERT,
   * UPDATE, DELETE and their like only: what may change the connection, such as PRAGMA, leaves by itself.
   * @default false
   */
  readonly coalesce?: boolean | undefined
  /** Called with events about queries, transactions, retries and requests. In node they are also on the `diagnostics_channel` `baton`. */
  readonly observe?: Observe | undefined
}

/** Where a server is: scheme, host and port, and the path in front of every route. */
export interface Address {
  readonly origin: string
  readonly basePath: string
}

/** A configuration that was checked, with its defaults. */
export type ResolvedConfig = Omit<ClientConfig, 'url' | 'namespace' | 'headers'> & {
  readonly [K in Exclude<keyof typeof DEFAULTS, 'headers'>]: NonNullable<ClientConfig[K]>
} & {
  readonly address: Address
  readonly headers: Readonly<Record<string, string>>
}

const OPTIONS: Readonly<Record<keyof ClientConfig, string>> = {
  url: 'string or object',
  authToken: 'string or function',
  intMode: "'auto' or 'number' or 'bigint' or 'string'",
  requestTimeoutMs: TIME,
  fetch: 'function',
  headers: 'object',
  namespace: 'string',
  allowedHosts: 'object',
  transactionTimeoutMs: TIME,
  writeLockTimeoutMs: TIME,
  maxRetries: FROM_0,
  concurrency: FROM_1,
  queueLimit: FROM_1,
  readYourWrites: 'boolean',
  minReplicationIndex: 'string or number or bigint',
  coalesce: 'boolean',
  observe: 'function',
}

const DEFAULTS = {
  intMode: 'auto',
  requestTimeoutMs: REQUEST_TIMEOUT_MS,
  transactionTimeoutMs: TRANSACTION_WINDOW_MS,
  writeLockTimeoutMs: WRITE_LOCK_TIMEOUT_MS,
  maxRetries: MAX_RETRIES,
  concurrency: CONCURRENCY,
  queueLimit: QUEUE_LIMIT,
  readYourWrites: true,
  headers: {},
  allowedHosts: [],
} as const

/** Checks a configuration and fills in the defaults. @throws TypeError that names the option and the remedy */
export function resolveConfig(config: ClientConfig): ResolvedConfig {
  checkOptions(config, OPTIONS)
  const given = Object.entries(config).filter(([, value]) => value !== undefined)
  const checked: object = { ...DEFAULTS, ...Object.fromEntries(given) }
  const { url, namespace, ...options } = checked as ClientConfig & ResolvedConfig
  const { minReplicationIndex } = options
  if (minReplicationIndex !== undefined && !/^\d+$/.test(String(minReplicationIndex)))
    throw new TypeError(`minReplicationIndex must be a whole number, not "${minReplicationIndex}"`)
  const { address, token } = parseUrl(url)
  const headers: Record<string, string> = {}
  if (namespace)
    headers['x-namespace-bin'] = encodeBase64(new TextEncoder().encode(namespace)).replace(/=+$/, '')
  for (const [name, value] of pairsOf(options.headers)) headers[name.toLowerCase()] = value
  return {
    ...options,
    address,
    authToken: options.authToken || token,
    headers,
    allowedHosts: options.allowedHosts.slice(),
  }
}

/** The names and values of headers, of which `Headers` and `Map` have none as properties. */
const pairsOf = (headers: NonNullable<ClientConfig['headers']>): Iterable<readonly [string, string]> =>
  Symbol.iterator in headers ? headers : Object.entries(headers)

function parseUrl(url: string | URL | undefined): { address: Address; token: string | undefined } {
  if (url === undefined || url === '')
    throw new TypeError(
      `url is ${url === undefined ? 'undefined' : 'empty'}: is its environment variable set?`,
    )
  const text = String(url)
  const [, given = '', rest] = /^(libsql|https?):(\/\/.*)$/i.exec(text) ?? []
  const scheme = given.toLowerCase()
  const isPlain = scheme === 'http' || (scheme === 'libsql' && /[?&]tls=0(&|$)/.test(rest ?? ''))
  if (/^[\w.-]+:\d+(\/|$)/.test(text))
    throw new TypeError(`url has no scheme: did you mean http://${shown(text).slice(1, -1)}?`)
  if (rest === undefined)
    throw new TypeError(
      `url must be libsql://…, https://… or http://…, not ${shown(text)}; for a file run \`npx @batonsql/local-server dev\`, for ws: use http:`,
    )
  // under a scheme that URL does not know it would find neither host nor port
  const known = `http${isPlain ? '' : 's'}:${rest}`
  if (!URL.canParse(known))
    throw new TypeError(`url has no valid host, or a port above 65535: ${shown(text)}`)
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

/** As much of an address as can be no token: neither a query nor what stands before an @. */
const shown = (text: string): string =>
  text === '' || text.includes(':')
    ? `"${text.replace(/[?#][^]*/, '').replace(/^[^]*@/, '…@')}"`
    : 'a text without any'

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
