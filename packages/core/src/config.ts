import { CONNECTIONS, REQUEST_TIMEOUT_MS } from './limits.ts'
import type { Fetch } from './transport/transport.ts'
import type { IntMode } from './value.ts'

/** Settings of a client. Copied when the client is made. */
export interface ClientConfig {
  /** `libsql://`, `https://` or `http://`, with port and base path if needed; may carry `?authToken=` and `?tls=0`. */
  readonly url: string | URL
  /** Database token, or a function that returns one; it is asked before every request. */
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

const OPTIONS = [
  'url',
  'authToken',
  'intMode',
  'requestTimeoutMs',
  'fetch',
  'headers',
  'namespace',
  'allowedHosts',
  'connections',
]
const INT_MODES = ['auto', 'number', 'bigint', 'string']

/** Checks a configuration and fills in the defaults. @throws TypeError that names the option and the remedy */
export function resolveConfig(config: ClientConfig): ResolvedConfig {
  if (typeof config !== 'object' || config === null)
    throw new TypeError('expected a configuration such as { url, authToken }')
  for (const name of Object.keys(config)) if (!OPTIONS.includes(name)) throw unknownOption(name)
  const {
    intMode = 'auto',
    requestTimeoutMs = REQUEST_TIMEOUT_MS,
    connections = CONNECTIONS,
    namespace,
  } = config
  if (!INT_MODES.includes(intMode)) throw new TypeError(`intMode must be one of ${INT_MODES.join(', ')}`)
  checkTimeout('requestTimeoutMs', requestTimeoutMs)
  if (!Number.isInteger(connections) || connections < 1)
    throw new RangeError('connections must be an integer of at least 1')
  if (config.fetch !== undefined && typeof config.fetch !== 'function')
    throw new TypeError('fetch must be a function')
  const { address, urlToken } = parseUrl(String(config.url))
  const authToken = config.authToken ?? urlToken
  if (authToken !== undefined && typeof authToken !== 'string' && typeof authToken !== 'function') {
    throw new TypeError('authToken must be a string or a function that returns one')
  }
  const headers: Record<string, string> = {}
  if (namespace !== undefined) headers['x-namespace-bin'] = encodeNamespace(namespace)
  for (const [name, value] of Object.entries(config.headers ?? {})) headers[name.toLowerCase()] = value
  return {
    address,
    authToken,
    intMode,
    requestTimeoutMs,
    fetch: config.fetch,
    headers,
    allowedHosts: [...(config.allowedHosts ?? [])],
    connections,
  }
}

/** @throws RangeError when it is no time in ms; Infinity means no limit */
export function checkTimeout(name: string, value: number): void {
  // timers count in 32 bits
  if (typeof value !== 'number' || !(value > 0) || (value >= 2 ** 31 && value !== Infinity)) {
    throw new RangeError(`${name} must be a positive number of milliseconds, or Infinity`)
  }
}

function unknownOption(name: string): TypeError {
  if (name === 'syncUrl' || name === 'syncInterval' || name === 'encryptionKey') {
    return new TypeError(
      `${name} is for embedded replicas, which need a local file; leave it out: every query goes to \`url\``,
    )
  }
  return new TypeError(`unknown option ${name}; the options are ${OPTIONS.join(', ')}`)
}

const encodeNamespace = (name: string): string =>
  btoa(String.fromCharCode(...new TextEncoder().encode(name))).replace(/=+$/, '')

// Never put the URL itself into a message: it may carry a token.
function parseUrl(text: string): { address: Address; urlToken: string | undefined } {
  const scheme = /^([a-z][a-z+.-]*):/i.exec(text)?.[1]?.toLowerCase()
  if (scheme === 'file' || text === ':memory:') {
    throw new TypeError(
      'url names a local file or memory; Baton speaks HTTP: serve it with `npx baton dev` and use that URL',
    )
  }
  if (scheme === 'ws' || scheme === 'wss') {
    throw new TypeError(
      `url starts with ${scheme}:, Baton speaks HTTP; use ${scheme === 'ws' ? 'http' : 'https'}: or libsql:`,
    )
  }
  if (scheme !== 'libsql' && scheme !== 'https' && scheme !== 'http') {
    throw new TypeError('url must start with libsql://, https:// or http://')
  }
  // special schemes only are parsed with host and port
  const url = URL.canParse(text)
    ? new URL(text.replace(/^[a-z]+:/i, scheme === 'http' ? 'http:' : 'https:'))
    : null
  if (!url?.host) throw new TypeError('url has no host')
  if (url.username || url.password) throw new TypeError('url carries a user name; use authToken')
  if (url.hash) throw new TypeError('url has a fragment (#…)')
  for (const name of url.searchParams.keys()) {
    if (name !== 'authToken' && name !== 'tls')
      throw new TypeError(`unknown parameter ${name} in url; authToken and tls are known`)
  }
  const tls = url.searchParams.get('tls') ?? (scheme === 'http' ? '0' : '1')
  if (tls !== '0' && tls !== '1') throw new TypeError('tls in url must be 0 or 1')
  if ((scheme === 'http' && tls === '1') || (scheme === 'https' && tls === '0')) {
    throw new TypeError(`tls=${tls} in url contradicts ${scheme}:`)
  }
  return {
    address: {
      origin: `${tls === '0' ? 'http' : 'https'}://${url.host}`,
      basePath: url.pathname.replace(/\/+$/, ''),
    },
    urlToken: url.searchParams.get('authToken') ?? undefined,
  }
}

/** Address that a server names for the rest of a stream; null when it is not one that the token may go to. */
export function followBaseUrl(baseUrl: string, { address, allowedHosts }: ResolvedConfig): Address | null {
  let next: Address
  try {
    next = parseUrl(baseUrl).address
  } catch {
    return null
  }
  const [scheme, host] = next.origin.split('://') as [string, string]
  if (!address.origin.startsWith(`${scheme}:`)) return null
  const allowed = (pattern: string): boolean =>
    pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern
  return next.origin === address.origin || allowedHosts.some(allowed) ? next : null
}
