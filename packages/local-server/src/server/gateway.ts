import { type AccessPolicy, hostName } from '../auth/access-policy.ts'
import { claimedDatabase } from '../auth/token-check.ts'
import type { DatabaseId } from '../backend/backend.ts'
import { MissingFileError } from '../backend/database-file.ts'
import { isExportRoute } from '../backend/export-routes.ts'
import { RESERVED_NAMES } from '../backend/reserved-names.ts'
import type { ControlPlane } from '../control-plane/control-plane.ts'
import { Refusal } from '../control-plane/refusal.ts'
import type { DatabaseRow } from '../control-plane/registry/rows.ts'
import { isAddressAllowed } from '../control-plane/rules/allowed-ips.ts'
import {
  BodyTooLargeError,
  errorResponse,
  type ServiceRequest,
  type ServiceResponse,
  textResponse,
} from '../http/service-request.ts'
import { WindowFeed } from '../window/window-feed.ts'
import { WindowPage } from '../window/window-page.ts'
import { DISK_FAULTS, type DiskFault, watchDiskFaults } from './disk-faults.ts'
import { metricsText, type RequestCount } from './metrics.ts'
import type { ServerLog } from './server-log.ts'
import { welcomePage } from './welcome-page.ts'

/** The database at the bare URL. */
export const DEFAULT_DATABASE = 'default'

const GREETING = 'Hello, this is HTTP API v2 (Hrana over HTTP)'

/** How often one database's faults are printed at most. */
const FAULT_INTERVAL_MS = 60_000

type Method = 'POST' | 'GET,HEAD'

/** What is known at a path: with which methods, and what answers. */
interface Route {
  readonly allow: Method
  readonly answer: () => ServiceResponse | Promise<ServiceResponse>
}

/** Routes that a back end answers. */
const DATABASE_ROUTES: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['/v2/pipeline', 'POST'],
  ['/v3/pipeline', 'POST'],
  ['/v3/cursor', 'POST'],
  ['/dump', 'GET,HEAD'],
  ['/beta/listen', 'GET,HEAD'],
  ['/v1/jobs', 'GET,HEAD'],
])
const JOB = /^\/v1\/jobs\/[\w-]+$/

/** What the gateway needs to find databases. */
export interface GatewayOptions {
  readonly controlPlane: ControlPlane
  readonly version: string
  /** Host names that stand for a database. */
  readonly domains: Readonly<Record<string, string>>
  /** Who is let in at all. */
  readonly access: AccessPolicy
  /** Whether there is a page that shows what goes over the wire. */
  readonly window: boolean
  readonly log: ServerLog
}

/**
 * Finds the database a request is for and hands the request to the back end: by the first segment of the path, by the
 * `x-namespace-bin` or `x-namespace` header, by a named domain, the platform's or `<name>.localhost`, else `default`.
 */
export class Gateway {
  readonly #options: GatewayOptions
  /** Of databases that exist: requests for others must not fill the memory. */
  readonly #counts = new Map<DatabaseId, RequestCount>()
  /** When a fault of the disk was last printed. */
  readonly #faults = new Map<DatabaseId, number>()
  readonly #feed: WindowFeed | null
  readonly #window: WindowPage | null
  #total = 0

  constructor(options: GatewayOptions) {
    this.#options = options
    this.#feed = options.window ? new WindowFeed({ version: options.version }) : null
    this.#window = this.#feed === null ? null : new WindowPage(this.#feed)
  }

  /** Requests that were addressed to a database, or to any. */
  requestCount(name?: string): number {
    if (name === undefined) return this.#total
    const record = this.#find(name)
    return record === undefined ? 0 : (this.#counts.get(record.id)?.requests ?? 0)
  }

  /** What Prometheus reads. */
  metrics(): string {
    return metricsText(this.#options.controlPlane, this.#counts, this.#options.version)
  }

  /** Tells the log, and those who look at the wire, what happened to the server of a database. */
  notice(id: DatabaseId, text: string): void {
    const { addresses, registry } = this.#options.controlPlane
    const row = registry.databases.get(id)
    const name = row === undefined ? id : addresses.pathOf(row)
    if (this.#options.log.isOn) this.#options.log.event('warn', 'database', { database: name, text })
    else console.error(`${name}: ${text}`)
    this.#feed?.notice(name, text)
  }

  /** Forgets a database that is removed. */
  forget(id: DatabaseId): void {
    this.#counts.delete(id)
    this.#faults.delete(id)
  }

  async handle(request: ServiceRequest): Promise<ServiceResponse> {
    const { access } = this.#options
    const refusal = access.refusalOf(request) ?? refusalOfBody(request)
    if (refusal !== null) return refusal
    if (this.#window !== null && WindowPage.owns(request.path)) return await this.#window.handle(request)
    const response = await this.#route(request).catch(answerTooLarge)
    return { ...response, headers: { ...response.headers, ...access.corsHeaders(request) } }
  }

  async #route(request: ServiceRequest): Promise<ServiceResponse> {
    const address = this.#address(request)
    if ('status' in address) return address
    const { name, path } = address
    const record = this.#find(name)
    this.#total += 1
    const count = record && this.#countOf(record.id)
    if (count) count.requests += 1
    const route = this.#routeOf({ name, record }, { ...request, path })
    if (route === null) return textResponse(404, null, '')
    const { allow } = route
    if (request.method === 'OPTIONS') {
      const headers = { ...this.#options.access.preflightHeaders(request, 'GET, HEAD, POST'), allow }
      return { status: 200, headers, body: '' }
    }
    if (!allow.split(',').includes(request.method)) return { status: 405, headers: { allow }, body: '' }
    const startedAt = performance.now()
    const response = await route.answer()
    if (count) count.seconds += (performance.now() - startedAt) / 1_000
    if (count && response.status >= 500) count.failed += 1
    return response
  }

  #countOf(id: DatabaseId): RequestCount {
    const count = this.#counts.get(id) ?? { requests: 0, failed: 0, seconds: 0 }
    this.#counts.set(id, count)
    return count
  }

  #routeOf(target: Target, request: ServiceRequest): Route | null {
    const { path, method, headers } = request
    const { version } = this.#options
    const read = (answer: Route['answer']): Route => ({ allow: 'GET,HEAD', answer })
    switch (path) {
      case '/': {
        const wantsPage = method === 'GET' && String(headers['accept'] ?? '').includes('text/html')
        return wantsPage ? read(() => welcomePage(version, request, this.#window !== null)) : null
      }
      case '/v2':
      case '/v3':
      case '/v3-protobuf':
        return read(() => textResponse(200, 'text/plain', GREETING))
      case '/version':
        return read(() => textResponse(200, null, version))
      case '/health':
        return read(() => this.#health(target))
      default: {
        const isRead = isExportRoute(path) || JOB.test(path)
        const allow = DATABASE_ROUTES.get(path) ?? (isRead ? 'GET,HEAD' : null)
        return allow && { allow, answer: () => this.#forwardSeen(target, request) }
      }
    }
  }

  /** A database that is not there, or behind a server that does not answer, is not healthy. */
  async #health({ name, record }: Target): Promise<ServiceResponse> {
    // the bare URL is asked for the server: it may have no default database
    if (record === undefined && name === DEFAULT_DATABASE) return textResponse(200, null, '')
    if (record === undefined || !this.#options.controlPlane.databases.isReady(record)) return notThere(name)
    const trouble = await this.#options.controlPlane.backend.troubleOf?.(record.id)
    return trouble ? errorResponse(503, `\`${name}\`: ${trouble}`) : textResponse(200, null, '')
  }

  /** Forwards, and lets those who look at the wire see it. */
  #forwardSeen(target: Target, request: ServiceRequest): Promise<ServiceResponse> {
    const feed = this.#feed
    if (feed === null || !feed.isWatched) return this.#forward(target, request)
    return feed.watch(target.name, request, (seen) => this.#forward(target, seen))
  }

  async #forward({ name, record }: Target, request: ServiceRequest): Promise<ServiceResponse> {
    if (this.#options.access.isCrossSiteLoad(request)) {
      return errorResponse(403, 'Pages of other sites may not load this')
    }
    const { backend, databases, externalTokens, usage } = this.#options.controlPlane
    if (record === undefined || !databases.isReady(record)) return notThere(name)
    const refusal = this.#refusalOf(name, record, request)
    if (refusal !== null) return refusal
    const exchanged = await externalTokens
      .exchange(record, request, backend.hasTablePermissions)
      .catch(refusalResponse)
    if ('status' in exchanged) return exchanged
    // keys may have been fetched meanwhile; what is closed from here on ends with its right
    const lateRefusal = this.#refusalOf(name, record, request)
    if (lateRefusal !== null) return lateRefusal
    usage.touch(record.id)
    const response = await backend.handle(record.id, exchanged).catch((error: unknown) => {
      if (!(error instanceof MissingFileError)) throw error
      this.#noticeOnce(record.id, `${error.message}; it answers 404, and is not made anew`)
      return notThere(name)
    })
    usage.answered(record.id, response.body)
    if (isExportRoute(request.path))
      usage.addBytesSynced(record.id, Number(response.headers['content-length'] ?? 0))
    const isOfStatements = request.method === 'POST'
    const body = isOfStatements
      ? watchDiskFaults(response.body, (fault) => this.#noticeFault(record, fault))
      : response.body
    // back ends know ids only; people know names
    if (response.status < 400 || typeof body !== 'string') return { ...response, body }
    return { ...response, body: body.replaceAll(record.id, name) }
  }

  /** Refuses a client of a database that is archived, or that is not for its address. */
  #refusalOf(name: string, { id }: DatabaseRow, { remoteAddress }: ServiceRequest): ServiceResponse | null {
    const { databases, groups } = this.#options.controlPlane.registry
    const row = databases.get(id)
    if (row === undefined) return notThere(name)
    if (groups.get(row.group)?.isArchived === true)
      return errorResponse(502, `the group of \`${name}\` is archived; unarchive it first`)
    if (isAddressAllowed(row.configuration.allowedIps, remoteAddress)) return null
    return errorResponse(403, `\`${name}\` may not be reached from this address`)
  }

  /** A full disk, or one that fails, has to be seen where the server runs, too. */
  #noticeFault({ id, configuration }: DatabaseRow, fault: DiskFault): void {
    // a limit that was set is no fault
    if (fault === 'SQLITE_FULL' && configuration.sizeLimitBytes !== null) return
    this.#noticeOnce(id, DISK_FAULTS[fault])
  }

  #noticeOnce(id: DatabaseId, fault: string): void {
    const now = Date.now()
    if (now - (this.#faults.get(id) ?? 0) < FAULT_INTERVAL_MS) return
    this.#faults.set(id, now)
    this.notice(id, fault)
  }

  #address(request: ServiceRequest): { name: string; path: string } | ServiceResponse {
    const { path, headers } = request
    const segment = /^\/([^/]+)\/(.*)$/.exec(path)
    if (segment?.[1] !== undefined && !RESERVED_NAMES.has(segment[1])) {
      return { name: safeDecode(segment[1]), path: `/${segment[2]}` }
    }
    const named = namespaceHeader(headers)
    if (named !== null && typeof named === 'object') return named
    return { name: named ?? this.#byHost(request) ?? this.#byToken(request) ?? DEFAULT_DATABASE, path }
  }

  /** The vendor's command line exports from the bare host, whatever path a database has. */
  #byToken(request: ServiceRequest): string | null {
    if (!isExportRoute(request.path)) return null
    const id = claimedDatabase(request)
    const { registry, addresses } = this.#options.controlPlane
    const row = id === null ? undefined : registry.databases.get(id)
    return row === undefined ? null : addresses.pathOf(row)
  }

  #find(name: string): DatabaseRow | undefined {
    return this.#options.controlPlane.addresses.find(name)
  }

  #byHost(request: ServiceRequest): string | null {
    const host = hostName(request) ?? ''
    if (Object.hasOwn(this.#options.domains, host)) return this.#options.domains[host] ?? null
    const label = this.#options.controlPlane.addresses.labelOfHost(host)
    if (label !== null) return label
    return /^([^.]+)\.localhost$/.exec(host)?.[1] ?? null
  }
}

/** The database a request is for, as far as there is one. */
interface Target {
  readonly name: string
  readonly record: DatabaseRow | undefined
}

/** Where no route has a body there is none, so that it cannot be taken for the next request. */
function refusalOfBody({ method, headers }: ServiceRequest): ServiceResponse | null {
  const length = headers['content-length'] ?? '0'
  // every other method is refused as such
  const isRead = ['GET', 'HEAD', 'OPTIONS'].includes(method)
  if (!isRead || (length === '0' && headers['transfer-encoding'] === undefined)) return null
  const { body } = errorResponse(400, `A ${method} request has no body here`)
  return { status: 400, headers: { 'content-type': 'application/json', connection: 'close' }, body }
}

function refusalResponse(error: unknown): ServiceResponse {
  if (!(error instanceof Refusal)) throw error
  return errorResponse(error.status, error.message)
}

function notThere(name: string): ServiceResponse {
  return errorResponse(404, `Namespace \`${name}\` doesn't exist`)
}

function safeDecode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** The name in the header, or what is answered when it cannot be read. */
function namespaceHeader(headers: ServiceRequest['headers']): string | ServiceResponse | null {
  const binary = headers['x-namespace-bin']
  if (typeof binary === 'string') {
    const offset = binary.search(/[^A-Za-z0-9+/]/)
    if (offset < 0) return Buffer.from(binary, 'base64').toString('utf8')
    const text = `Invalid byte ${binary.charCodeAt(offset)}, offset ${offset}.`
    return errorResponse(400, `Invalid namespace bytes: \`${text}\``)
  }
  const plain = headers['x-namespace']
  return typeof plain === 'string' && plain !== '' ? plain : null
}

/** The connection is of no use after it: the rest of the body is on it. */
function answerTooLarge(error: unknown): ServiceResponse {
  if (!(error instanceof BodyTooLargeError)) throw error
  const { status, headers, body } = errorResponse(413, error.message)
  return { status, headers: { ...headers, connection: 'close' }, body }
}
