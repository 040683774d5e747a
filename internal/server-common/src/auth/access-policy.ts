import { isIP } from 'node:net'
import { errorResponse, type ServiceRequest, type ServiceResponse } from '../http/service-request.ts'

type Headers = Pick<ServiceRequest, 'headers'>

export interface AccessOptions {
  readonly listenHost: string
  /** Maps host names to databases. */
  readonly domains: Readonly<Record<string, string>>
  /** Suffix of the host names of databases; null for none. May include a port. */
  readonly domain: string | null
  /** Origins of allowed web pages, in addition to those on this machine. */
  readonly allowOrigins: readonly string[]
}

const HOST_PATTERN = /^(?<name>\[[0-9a-f:.]+\]|[^\s:/?#@,[\]\\]+)(?::\d{1,5})?$/i
const LOOPBACK_PATTERN = /^(?:localhost|[^.]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i
const VARY_HEADER = 'origin, access-control-request-method, access-control-request-headers'

/**
 * Rejects requests from foreign web pages, because any page in a browser on this machine can send requests to the server. A
 * page is recognized by its origin, or by the requested host if it has pointed its own host name here (DNS rebinding).
 */
export class AccessPolicy {
  readonly #options: AccessOptions
  readonly #isPublic: boolean

  /** Creates a policy. @throws TypeError for an origin that no browser would send, and for a domain that no request can have */
  constructor(options: AccessOptions) {
    for (const host of Object.keys(options.domains)) checkHostName(host)
    for (const origin of options.allowOrigins) checkOrigin(origin)
    this.#options = options
    this.#isPublic = !isLoopback(options.listenHost)
  }

  /** Returns the error for a request that is not allowed, or null. */
  findRejection(request: Headers): ServiceResponse | null {
    const name = getHostName(request)
    if (name === null) return errorResponse(400, 'Invalid host header')
    if (!this.#allowsHost(name)) {
      const remedy = 'to allow it, add the host to `domains` (`baton dev --domain HOST=DATABASE`)'
      return errorResponse(403, `This server does not serve the host \`${name}\`; ${remedy}`)
    }
    const origin = getOrigin(request)
    if (origin === null || this.#allowsOrigin(origin, request)) return null
    const remedy = 'to allow them, add the origin to `allowOrigins` (`baton dev --allow-origin ORIGIN`)'
    return errorResponse(
      403,
      `Pages from \`${origin.slice(0, 200)}\` are not allowed to use this server; ${remedy}`,
    )
  }

  /** Whether a page on another site sent this request through an HTML tag, for which browsers send no `Origin` header. */
  isCrossSiteLoad({ headers }: Headers): boolean {
    return headers['origin'] === undefined && headers['sec-fetch-site'] === 'cross-site'
  }

  /** Returns the headers that allow a page to read the response, for an allowed request. */
  corsHeaders(request: Headers): Record<string, string> {
    const origin = getOrigin(request)
    return { vary: VARY_HEADER, ...(origin !== null && { 'access-control-allow-origin': origin }) }
  }

  preflightHeaders({ headers }: Headers, methods: string): Record<string, string> {
    const requestedHeaders = headers['access-control-request-headers']
    const isList = typeof requestedHeaders === 'string' && /^[\w\-, ]+$/.test(requestedHeaders)
    return {
      'access-control-allow-methods': methods,
      'access-control-allow-headers': isList ? requestedHeaders : '*',
      ...(headers['access-control-request-private-network'] === 'true' && {
        'access-control-allow-private-network': 'true',
      }),
    }
  }

  #allowsHost(name: string): boolean {
    if (LOOPBACK_PATTERN.test(name) || Object.hasOwn(this.#options.domains, name)) return true
    const { domain } = this.#options
    if (domain !== null && name.endsWith(`.${domain.replace(/:\d+$/, '')}`)) return true
    // the owner of a host name can point it here, but an address cannot be redirected
    const isAddress = isIP(name.replace(/^\[|\]$/g, '')) !== 0
    return this.#isPublic && (isAddress || name === this.#options.listenHost.toLowerCase())
  }

  #allowsOrigin(origin: string, { headers }: Headers): boolean {
    if (this.#options.allowOrigins.includes(origin)) return true
    const authority = /^https?:\/\/([^/\s]+)$/.exec(origin)?.[1]
    if (authority === undefined) return false
    const name = HOST_PATTERN.exec(authority)?.groups?.['name']
    return name !== undefined && (LOOPBACK_PATTERN.test(name) || authority === headers['host'])
  }
}

/** Whether an address or host name can be reached only from this machine. */
export function isLoopback(host: string): boolean {
  return LOOPBACK_PATTERN.test(isIP(host) === 6 ? `[${host}]` : host)
}

/** Returns the requested host in lower case without its port; null if the header is missing or invalid. */
export function getHostName({ headers }: Headers): string | null {
  const header = headers['host']
  return (typeof header === 'string' && HOST_PATTERN.exec(header.toLowerCase())?.groups?.['name']) || null
}

function getOrigin({ headers }: Headers): string | null {
  const origin = headers['origin']
  return origin === undefined ? null : String(origin)
}

function checkHostName(host: string): void {
  if (HOST_PATTERN.exec(host)?.groups?.['name'] === host) return
  throw new TypeError(`domains: "${host}" is not a host name; use a form like "db.example", without a port`)
}

function checkOrigin(origin: string): void {
  // browsers omit the default port, and send host names in lower case and ASCII
  const isWeb = /^https?:/.test(origin)
  const isCanonical = !isWeb || (URL.canParse(origin) && new URL(origin).origin === origin)
  if (origin === 'null' || (isCanonical && /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s*]+$/.test(origin))) return
  throw new TypeError(
    `allowOrigins: "${origin}" is not the origin of a page; use a form like "https://app.example" or "http://192.168.1.5:3000"`,
  )
}
