import {
  checkEnds,
  checkOption,
  checkOptions,
  NON_NEGATIVE_INTEGER,
  POSITIVE_INTEGER,
  type RulesOf,
  STRINGS,
  TIME,
} from '@batonsql/options'
import { encodeBase64 } from '#base64'
import {
  DEFAULT_CONCURRENCY,
  MAX_RETRIES,
  QUEUE_LIMIT,
  REQUEST_TIMEOUT_MS,
  TRANSACTION_WINDOW_MS,
  WRITE_LOCK_TIMEOUT_MS,
} from './base/limits.ts'
import { INT_MODES, type IntMode } from './codec/value.ts'
import type { Observe } from './observe/events.ts'
import type { Fetch } from './transport/transport.ts'

/** Settings of a client. Copied when the client is created. */
export interface ClientConfig {
  /** `libsql://` (or `turso://`), `https://` or `http://`, with port and base path if needed; may have `?authToken=` and `?tls=0`. */
  readonly url: string | URL
  /** Database token, or a function that returns one, called before every request. An empty token is ignored. */
  readonly authToken?: string | (() => string | Promise<string>) | undefined
  /** How 64-bit integers are returned. @default 'auto' */
  readonly intMode?: IntMode | undefined
  /** Time limit of a call in ms, including queueing, connecting and reading the response. @default 30000 */
  readonly requestTimeoutMs?: number | undefined
  /** Replaces the platform's HTTP client. */
  readonly fetch?: Fetch | undefined
  /** Headers added to every request, for proxies and encryption keys: an object, `Headers`, or pairs. */
  readonly headers?: Readonly<Record<string, string>> | Iterable<readonly [string, string]> | undefined
  /** Database on a libsql-server that does not derive it from the host name; sent as `x-namespace-bin`. */
  readonly namespace?: string | undefined
  /**
   * Additional hosts to which a server may redirect a stream (`base_url`), such as `eu.example.com` or `*.example.com`. The
   * token is sent to no other host.
   */
  readonly allowedHosts?: readonly string[] | undefined
  /**
   * How long a transaction may hold the write lock, in ms. If it is idle after that time, the client closes it, so that other
   * writers can proceed; later calls reject. Infinity = until the server ends it.
   * @default 5000
   */
  readonly transactionTimeoutMs?: number | undefined
  /**
   * How long a transaction may wait for earlier write transactions of this client, in ms. The time limit of its first statement
   * begins afterwards. Infinity = no limit.
   * @default 60000
   */
  readonly writeLockTimeoutMs?: number | undefined
  /**
   * Maximum number of retries of a call: of reads after a network failure, and of writes that were provably not executed. 0 = none.
   * @default 2
   */
  readonly maxRetries?: number | undefined
  /**
   * Maximum number of concurrent reads, and of concurrent requests that may wait for the write lock; further ones are queued,
   * reads in their own queue. Requests that continue a transaction do not count, so that it can always be ended.
   * @default 64
   */
  readonly concurrency?: number | undefined
  /** Maximum number of calls in each queue, and in one transaction; further ones reject with `QUEUE_FULL`. @default 10000 */
  readonly queueLimit?: number | undefined
  /**
   * Whether a replica first catches up with what this client wrote or saw before it serves a read.
   * @default true
   */
  readonly readYourWrites?: boolean | undefined
  /** The `replicationIndex` of a client in another process, whose writes a replica must have before it serves a read. */
  readonly minReplicationIndex?: string | number | bigint | undefined
  /**
   * The function `coalesce`, which combines statements outside of transactions into one request if they are issued in the same tick
   * of the event loop. This is several times as fast for many short statements. Each has its own result; a slow one delays those
   * after it. Applies to SELECT, INSERT, UPDATE, DELETE and the like: statements that may change the connection, such as PRAGMA,
   * are sent separately.
   * @default none
   */
  readonly coalesce?: Coalesce | undefined
  /**
   * Called with events about queries, transactions, retries and requests. In Node, they are also published on the
   * `diagnostics_channel` `baton`.
   */
  readonly observe?: Observe | undefined
}

/** The type of `coalesce`, a function that you import, so that bundles without it are smaller. */
export type Coalesce = (http: never) => object

/** The address of a server: scheme, host and port, and the base path of every route. */
export interface Address {
  readonly origin: string
  readonly basePath: string
}

export type ResolvedConfig = Omit<ClientConfig, 'url' | 'namespace' | 'headers'> & {
  readonly [K in Exclude<keyof typeof DEFAULTS, 'headers'>]: NonNullable<ClientConfig[K]>
} & {
  readonly address: Address
  readonly headers: Readonly<Record<string, string>>
}

const OPTIONS: RulesOf<ClientConfig> = {
  url: 'string or object',
  authToken: 'string or function',
  intMode: INT_MODES,
  requestTimeoutMs: TIME,
  fetch: 'function',
  headers: 'object',
  namespace: 'string',
  allowedHosts: STRINGS,
  transactionTimeoutMs: TIME,
  writeLockTimeoutMs: TIME,
  maxRetries: NON_NEGATIVE_INTEGER,
  concurrency: POSITIVE_INTEGER,
  queueLimit: POSITIVE_INTEGER,
  readYourWrites: 'boolean',
  minReplicationIndex: 'string or number or bigint',
  coalesce: 'function',
  observe: 'function',
}

const DEFAULTS = {
  intMode: 'auto',
  requestTimeoutMs: REQUEST_TIMEOUT_MS,
  transactionTimeoutMs: TRANSACTION_WINDOW_MS,
  writeLockTimeoutMs: WRITE_LOCK_TIMEOUT_MS,
  maxRetries: MAX_RETRIES,
  concurrency: DEFAULT_CONCURRENCY,
  queueLimit: QUEUE_LIMIT,
  readYourWrites: true,
  headers: {},
  allowedHosts: [],
} as const

/** Checks a configuration and adds the defaults. @throws TypeError naming the option and the remedy */
export function resolveConfig(config: ClientConfig): ResolvedConfig {
  checkOptions(config, OPTIONS)
  const definedOptions = Object.entries(config).filter(([, value]) => value !== undefined)
  const checked: object = { ...DEFAULTS, ...Object.fromEntries(definedOptions) }
  const { url, namespace, ...options } = checked as ClientConfig & ResolvedConfig
  const { minReplicationIndex } = options
  if (minReplicationIndex !== undefined && !/^\d+$/.test(String(minReplicationIndex)))
    throw new TypeError(`minReplicationIndex must be a whole number, not "${minReplicationIndex}"`)
  const { address, token } = parseUrl(url)
  const headers: Record<string, string> = {}
  // an empty one, as of an unset variable, is sent too: without it, the request would be for the database of the URL
  if (namespace !== undefined)
    headers['x-namespace-bin'] = encodeBase64(new TextEncoder().encode(namespace)).replace(/=+$/, '')
  for (const [name, value] of headerEntries(options.headers)) {
    checkOption(`the header ${name}`, value, 'string')
    // checked here because the platform's own error may print the value, which may be a key
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || !/^[\t -~\x80-\xff]*$/.test(value))
      throw new TypeError(`the header ${name} contains invalid characters`)
    headers[name.toLowerCase()] = value
  }
  return {
    ...options,
    address,
    authToken: options.authToken || token,
    headers,
    allowedHosts: options.allowedHosts.slice(),
  }
}

/** Returns the names and values of headers: an object, or an iterable such as `Headers`. */
const headerEntries = (headers: NonNullable<ClientConfig['headers']>): Iterable<readonly [string, string]> =>
  Symbol.iterator in headers ? headers : Object.entries(headers)

function parseUrl(url: string | URL | undefined): { address: Address; token: string | undefined } {
  if (!url) throw new TypeError(`url is ${url === '' ? 'empty' : url}: is its environment variable set?`)
  const text = String(url)
  checkEnds('url', text)
  const [, prefix = '', location] = /^(libsql|turso|https?):(\/\/.*)$/i.exec(text) ?? []
  const scheme = prefix.toLowerCase()
  const isPlain = scheme === 'http' || (scheme !== 'https' && /[?&]tls=0(&|$)/.test(location ?? ''))
  if (/^[\w.-]+:\d+(\/|$)/.test(text))
    throw new TypeError(`url has no scheme: did you mean http://${redactUrl(text).slice(1, -1)}?`)
  if (location === undefined)
    throw new TypeError(
      `url must be libsql://…, https://… or http://…, not ${redactUrl(text)}; for a file, use npx @batonsql/cli dev; for ws:, use http:`,
    )
  // URL parses host and port only for special schemes
  const httpUrl = `http${isPlain ? '' : 's'}:${location}`
  if (!URL.canParse(httpUrl))
    throw new TypeError(`url has no valid host, or a port above 65535: ${redactUrl(text)}`)
  const { origin, pathname, searchParams, username, password, hash } = new URL(httpUrl)
  const isUnknown = (name: string): boolean =>
    name !== 'authToken' && (name !== 'tls' || searchParams.get(name) !== (isPlain ? '0' : '1'))
  const names = [...searchParams.keys()].filter(isUnknown)
  const user = username || password
  if (names.length > 0 || user || hash)
    throw new TypeError(
      `url has an unsupported part: ${names[0] ?? (user ? 'a user name or password' : 'a fragment')}`,
    )
  return {
    address: { origin, basePath: withoutTrailingSlashes(pathname) },
    token: searchParams.get('authToken') ?? undefined,
  }
}

/** Returns the part of an address that cannot contain a token: without query and user info. */
const redactUrl = (text: string): string =>
  text === '' || text.includes(':')
    ? `"${text.replace(/[?#][^]*/, '').replace(/^[^]*@/, '…@')}"`
    : 'text without a scheme'

/** Returns the address to which a server redirects a stream; null if the token may not be sent there. */
export function followBaseUrl(baseUrl: string, { address, allowedHosts }: ResolvedConfig): Address | null {
  if (!URL.canParse(baseUrl)) return null
  const { origin, protocol, host, pathname } = new URL(baseUrl)
  const allows = (pattern: string): boolean => {
    // spelled as in a URL: in lower case and ASCII, without the default port
    const allowed = URL.canParse(`${protocol}//${pattern}`) ? new URL(`${protocol}//${pattern}`).host : ''
    return allowed.startsWith('*.') ? host.endsWith(allowed.slice(1)) : host === allowed
  }
  const isAllowed =
    origin === address.origin || (address.origin.startsWith(`${protocol}//`) && allowedHosts.some(allows))
  return isAllowed ? { origin, basePath: withoutTrailingSlashes(pathname) } : null
}

const withoutTrailingSlashes = (path: string): string => path.replace(/(?<!\/)\/+$/, '')
