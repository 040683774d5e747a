import type { DatabaseBackend } from './backend.ts'
import type { DatabaseRecord } from './control-plane/registry.ts'
import { errorResponse, type ServiceRequest, type ServiceResponse, textResponse } from './exchange.ts'

/** The database at the bare URL. */
export const DEFAULT_DATABASE = 'default'

/** First path segments that are routes, so that no database can have such a name. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set([
  'v1',
  'v2',
  'v3',
  'v3-protobuf',
  'version',
  'health',
  'dump',
  'beta',
  'dev',
  'console',
])

const CORS_HEADERS = {
  'access-control-allow-origin': '*',
  vary: 'origin, access-control-request-method, access-control-request-headers',
}
const PREFLIGHT_HEADERS = { 'access-control-allow-methods': '*', 'access-control-allow-headers': '*' }
const GREETING = 'Hello, this is HTTP API v2 (Hrana over HTTP)'

type RouteKind = 'database' | 'greeting' | 'version' | 'health'

interface Route {
  readonly kind: RouteKind
  readonly allow: 'POST' | 'GET,HEAD'
}

const ROUTES: ReadonlyMap<string, Route> = new Map<string, Route>([
  ['/v2/pipeline', { kind: 'database', allow: 'POST' }],
  ['/v3/pipeline', { kind: 'database', allow: 'POST' }],
  ['/v3/cursor', { kind: 'database', allow: 'POST' }],
  ['/dump', { kind: 'database', allow: 'GET,HEAD' }],
  ['/beta/listen', { kind: 'database', allow: 'GET,HEAD' }],
  ['/v1/jobs', { kind: 'database', allow: 'GET,HEAD' }],
  ['/v2', { kind: 'greeting', allow: 'GET,HEAD' }],
  ['/v3', { kind: 'greeting', allow: 'GET,HEAD' }],
  ['/version', { kind: 'version', allow: 'GET,HEAD' }],
  ['/health', { kind: 'health', allow: 'GET,HEAD' }],
])

/** What the gateway needs to find databases. */
export interface GatewayOptions {
  readonly backend: DatabaseBackend
  readonly findDatabase: (name: string) => DatabaseRecord | undefined
  readonly version: string
  /** Host names that stand for a database. */
  readonly domains: Readonly<Record<string, string>>
}

/** A request that does not get as far as a route. */
class Refusal extends Error {
  readonly response: ServiceResponse

  constructor(response: ServiceResponse) {
    super(`refused with status ${response.status}`)
    this.response = response
  }
}

/**
 * Finds the database a request is for and hands the request to the back end: by the first segment of the path, by the
 * `x-namespace-bin` or `x-namespace` header, by a named domain or `<name>.localhost`, else `default`.
 */
export class Gateway {
  readonly #options: GatewayOptions
  readonly #counts = new Map<string, number>()

  constructor(options: GatewayOptions) {
    this.#options = options
  }

  /** Requests that were addressed to a database, or to any. */
  requestCount(name?: string): number {
    if (name !== undefined) return this.#counts.get(name) ?? 0
    let total = 0
    for (const count of this.#counts.values()) total += count
    return total
  }

  async handle(request: ServiceRequest): Promise<ServiceResponse> {
    try {
      const { name, path } = this.#address(request)
      this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
      const route =
        ROUTES.get(path) ?? (/^\/v1\/jobs\/[^/]+$/.test(path) ? ROUTES.get('/v1/jobs') : undefined)
      if (route === undefined) return textResponse(404, null, '')
      const response = await this.#answer(route, name, { ...request, path })
      return { ...response, headers: { ...response.headers, ...CORS_HEADERS } }
    } catch (error) {
      if (error instanceof Refusal) return error.response
      throw error
    }
  }

  async #answer(route: Route, name: string, request: ServiceRequest): Promise<ServiceResponse> {
    const { method } = request
    if (method === 'OPTIONS')
      return { status: 200, headers: { ...PREFLIGHT_HEADERS, allow: route.allow }, body: '' }
    if (!route.allow.split(',').includes(method)) {
      return { status: 405, headers: { allow: route.allow }, body: '' }
    }
    switch (route.kind) {
      case 'greeting':
        return textResponse(200, 'text/plain', GREETING)
      case 'version':
        return textResponse(200, null, this.#options.version)
      case 'health':
        return textResponse(200, null, '')
      case 'database':
        return await this.#forward(name, request)
      default:
        return route.kind satisfies never
    }
  }

  async #forward(name: string, request: ServiceRequest): Promise<ServiceResponse> {
    const record = this.#options.findDatabase(name)
    if (record === undefined) return errorResponse(404, `Namespace \`${name}\` doesn't exist`)
    const response = await this.#options.backend.handle(record.id, request)
    // back ends know ids only; people know names
    if (response.status < 400 || typeof response.body !== 'string') return response
    return { ...response, body: response.body.replaceAll(record.id, name) }
  }

  #address({ path, headers }: ServiceRequest): { name: string; path: string } {
    const segment = /^\/([^/]+)\/(.*)$/.exec(path)
    if (segment?.[1] !== undefined && !RESERVED_NAMES.has(segment[1])) {
      return { name: safeDecode(segment[1]), path: `/${segment[2]}` }
    }
    return { name: namespaceHeader(headers) ?? this.#byHost(headers['host']) ?? DEFAULT_DATABASE, path }
  }

  #byHost(header: string | string[] | undefined): string | null {
    const host = (Array.isArray(header) ? header[0] : header)?.replace(/:\d+$/, '') ?? ''
    if (Object.hasOwn(this.#options.domains, host)) return this.#options.domains[host] ?? null
    return /^([^.]+)\.localhost$/.exec(host)?.[1] ?? null
  }
}

function safeDecode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

function namespaceHeader(headers: ServiceRequest['headers']): string | null {
  const binary = headers['x-namespace-bin']
  if (typeof binary === 'string') {
    if (!/^[A-Za-z0-9+/]*$/.test(binary)) {
      const offset = binary.search(/[^A-Za-z0-9+/]/)
      const text = `Invalid namespace bytes: \`Invalid byte ${binary.charCodeAt(offset)}, offset ${offset}.\``
      throw new Refusal(errorResponse(400, text))
    }
    return Buffer.from(binary, 'base64').toString('utf8')
  }
  const plain = headers['x-namespace']
  return typeof plain === 'string' && plain !== '' ? plain : null
}
