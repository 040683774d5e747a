import { isIP } from 'node:net'
import { errorResponse, type ServiceRequest, type ServiceResponse } from '../http/service-request.ts'

/** What is looked at of a request. */
type Headers = Pick<ServiceRequest, 'headers'>

/** What {@link AccessPolicy} decides by. */
export interface AccessOptions {
  /** The address the server listens on. */
  readonly listenHost: string
  /** Host names that stand for a database. */
  readonly domains: Readonly<Record<string, string>>
  /** What host names of databases end with, after the label; null for none. May have a port. */
  readonly domain: string | null
  /** Origins of web pages that are let in besides those of this machine. */
  readonly allowOrigins: readonly string[]
}

const HOST = /^(?<name>\[[0-9a-f:.]+\]|[^\s:/?#@,[\]\\]+)(?::\d{1,5})?$/i
const LOOPBACK_NAME = /^(?:localhost|[^.]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i
const VARY = 'origin, access-control-request-method, access-control-request-headers'

/**
 * Keeps web pages out: any page in a browser on this machine can send requests to it. A page may be told apart by its
 * origin; one that has had its own name point here (DNS rebinding) by the host it asks for.
 */
export class AccessPolicy {
  readonly #options: AccessOptions
  readonly #isPublic: boolean

  /** Throws a `TypeError` for an origin that no browser would send. */
  constructor(options: AccessOptions) {
    for (const origin of options.allowOrigins) checkOrigin(origin)
    this.#options = options
    this.#isPublic = !isLoopback(options.listenHost)
  }

  /** The answer to a request that must not be served; null for the others. */
  refusalOf(request: Headers): ServiceResponse | null {
    const name = hostName(request)
    if (name === null) return errorResponse(400, 'Invalid host header')
    if (!this.#allowsHost(name)) {
      const remedy = 'name the host in `domains` (`baton dev --domain HOST=DATABASE`) if it is meant to be'
      return errorResponse(403, `This server is not \`${name}\`; ${remedy}`)
    }
    const origin = originOf(request)
    if (origin === null || this.#allowsOrigin(origin, request)) return null
    const remedy =
      'name the origin in `allowOrigins` (`baton dev --allow-origin ORIGIN`) if they are meant to'
    return errorResponse(403, `Pages of \`${origin.slice(0, 200)}\` may not use this server; ${remedy}`)
  }

  /** Whether a page of another site loads this by a tag, which sends no origin. */
  isCrossSiteLoad({ headers }: Headers): boolean {
    return headers['origin'] === undefined && headers['sec-fetch-site'] === 'cross-site'
  }

  /** The headers by which a browser lets the page have the answer; for requests that were not refused. */
  corsHeaders(request: Headers): Record<string, string> {
    const origin = originOf(request)
    return { vary: VARY, ...(origin !== null && { 'access-control-allow-origin': origin }) }
  }

  /** What a browser wants to know before it sends a request. */
  preflightHeaders({ headers }: Headers, methods: string): Record<string, string> {
    const wanted = headers['access-control-request-headers']
    const isList = typeof wanted === 'string' && /^[\w\-, ]+$/.test(wanted)
    return {
      'access-control-allow-methods': methods,
      'access-control-allow-headers': isList ? wanted : '*',
      ...(headers['access-control-request-private-network'] === 'true' && {
        'access-control-allow-private-network': 'true',
      }),
    }
  }

  #allowsHost(name: string): boolean {
    if (LOOPBACK_NAME.test(name) || Object.hasOwn(this.#options.domains, name)) return true
    const { domain } = this.#options
    if (domain !== null && name.endsWith(`.${domain.replace(/:\d+$/, '')}`)) return true
    // the owner of a name can make it point here, an address cannot be made to
    const isAddress = isIP(name.replace(/^\[|\]$/g, '')) !== 0
    return this.#isPublic && (isAddress || name.toLowerCase() === this.#options.listenHost.toLowerCase())
  }

  #allowsOrigin(origin: string, { headers }: Headers): boolean {
    if (this.#options.allowOrigins.includes(origin)) return true
    const authority = /^https?:\/\/([^/\s]+)$/.exec(origin)?.[1]
    if (authority === undefined) return false
    const name = HOST.exec(authority)?.groups?.['name']
    return name !== undefined && (LOOPBACK_NAME.test(name) || authority === headers['host'])
  }
}

/** Whether an address or name that is listened on is reached from this machine only. */
export function isLoopback(host: string): boolean {
  return LOOPBACK_NAME.test(isIP(host) === 6 ? `[${host}]` : host)
}

/** The host a request is for, without the port; null when it does not say. */
export function hostName({ headers }: Headers): string | null {
  const header = headers['host']
  return (typeof header === 'string' && HOST.exec(header)?.groups?.['name']) || null
}

function originOf({ headers }: Headers): string | null {
  const origin = headers['origin']
  return origin === undefined ? null : String(origin)
}

function checkOrigin(origin: string): void {
  if (origin === 'null' || /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s*]+$/.test(origin)) return
  throw new TypeError(
    `allowOrigins: "${origin}" is not the origin of a page; it looks like "https://app.example" or "http://192.168.1.5:3000"`,
  )
}
