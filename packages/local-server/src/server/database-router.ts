import { Readable } from 'node:stream'
import { ApiError, type ControlPlane, type DatabaseRow, isAddressAllowed } from '@batonsql/control-plane'
import { InspectorFeed, InspectorPage } from '@batonsql/inspector'
import type { AccessPolicy } from '@batonsql/server-common/auth'
import { type DatabaseId, isExportRoute, MissingFileError } from '@batonsql/server-common/backend'
import {
  errorResponse,
  releaseBodyMemory,
  type ServiceRequest,
  type ServiceResponse,
  textResponse,
  watchBody,
} from '@batonsql/server-common/http'
import { DISK_FAULTS, type DiskFault, watchDiskFaults } from './disk-faults.ts'
import { Failures } from './failures.ts'
import { hideInternalError, type ReportInternalError, toErrorResponse } from './internal-errors.ts'
import { formatMetrics, type RequestCount } from './metrics.ts'
import { DEFAULT_DATABASE, resolveAddress } from './resolve-address.ts'
import type { ServerLog } from './server-log.ts'
import { welcomePage } from './welcome-page.ts'

const GREETING = 'Hello, this is HTTP API v2 (Hrana over HTTP)'

/** Minimum time between two fault reports about the same database. */
const FAULT_INTERVAL_MS = 60_000

type Method = 'POST' | 'GET,HEAD'

interface Route {
  readonly allow: Method
  readonly handle: () => ServiceResponse | Promise<ServiceResponse>
}

/** Routes that the back end handles. */
const DATABASE_ROUTES: ReadonlyMap<string, Method> = new Map<string, Method>([
  ['/v2/pipeline', 'POST'],
  ['/v3/pipeline', 'POST'],
  ['/v3/cursor', 'POST'],
  ['/dump', 'GET,HEAD'],
  ['/beta/listen', 'GET,HEAD'],
  ['/v1/jobs', 'GET,HEAD'],
])
const JOB = /^\/v1\/jobs\/[\w-]+$/

export interface DatabaseRouterOptions {
  readonly controlPlane: ControlPlane
  readonly version: string
  /** Maps host names to databases. */
  readonly domains: Readonly<Record<string, string>>
  /** Decides which requests are accepted at all. */
  readonly access: AccessPolicy
  readonly inspector: boolean
  readonly log: ServerLog
}

/**
 * Passes each request to the back end, with the database that it addresses, or rejects it. Counts requests, and reports failures to the
 * log and to the request inspector.
 */
export class DatabaseRouter {
  readonly #options: DatabaseRouterOptions
  /** Contains only existing databases, so that requests for other names cannot exhaust the memory. */
  readonly #counts = new Map<DatabaseId, RequestCount>()
  /** When each fault of a database was last reported, according to `performance.now()`. */
  readonly #faults = new Map<DatabaseId, Map<string, number>>()
  /** Failures that tests have requested. */
  readonly failures = new Failures<DatabaseId>()
  readonly #feed: InspectorFeed | null
  readonly #inspector: InspectorPage | null
  #total = 0

  constructor(options: DatabaseRouterOptions) {
    this.#options = options
    this.#feed = options.inspector ? new InspectorFeed({ version: options.version }) : null
    this.#inspector =
      this.#feed === null ? null : new InspectorPage(this.#feed, () => this.#listDatabaseNames())
  }

  #listDatabaseNames(): readonly string[] {
    const { addresses, registry } = this.#options.controlPlane
    const readyDatabases = registry.databases.rows.filter(({ state }) => state === 'ready')
    return readyDatabases.map((row) => addresses.getPath(row)).sort()
  }

  /** Returns the number of requests to one database, or to all. */
  requestCount(name?: string): number {
    if (name === undefined) return this.#total
    const record = this.#options.controlPlane.addresses.find(name)
    return record === undefined ? 0 : (this.#counts.get(record.id)?.requests ?? 0)
  }

  /** Returns metrics in the Prometheus text format. */
  metrics(): string {
    return formatMetrics(this.#options.controlPlane, this.#counts, this.#options.version)
  }

  /** Reports a notice about a database's server to the log and to the request inspector. */
  reportNotice(id: DatabaseId, text: string): void {
    const { addresses, registry } = this.#options.controlPlane
    const row = registry.databases.get(id)
    const name = row === undefined ? id : addresses.getPath(row)
    this.#report('warn', 'database', { database: name, text }, text)
    this.#feed?.sendNotice(name, text)
  }

  /** Reports to the log; if there is none, prints `text`. */
  #report(
    level: 'warn' | 'error',
    event: string,
    fields: { readonly database: string; readonly [name: string]: string },
    text: string,
  ): void {
    if (this.#options.log.isEnabled) this.#options.log.write(level, event, fields)
    else console.error(`${fields.database}: ${text}`)
  }

  /** Discards the counters and the requested failures of a removed database. */
  forget(id: DatabaseId): void {
    this.#counts.delete(id)
    this.#faults.delete(id)
    this.failures.forget(id)
  }

  async handle(request: ServiceRequest): Promise<ServiceResponse> {
    const { access } = this.#options
    const rejection = access.findRejection(request) ?? findBodyRejection(request)
    if (rejection !== null) return rejection
    if (this.#inspector !== null && InspectorPage.handlesPath(request.path))
      return await this.#inspector.handle(request)
    const response = await this.#route(request)
    return { ...response, headers: { ...response.headers, ...access.corsHeaders(request) } }
  }

  async #route(request: ServiceRequest): Promise<ServiceResponse> {
    const address = resolveAddress(request, this.#options)
    if ('status' in address) return address
    const { name, path } = address
    const { row: record, location = null } = this.#options.controlPlane.addresses.resolve(name) ?? {}
    this.#total += 1
    const count = record && this.#getCount(record.id)
    if (count) count.requests += 1
    const route = this.#findRoute(
      { name, record, location },
      path === request.path ? request : { ...request, path },
    )
    if (route === null) return textResponse(404, null, '')
    const { allow } = route
    if (request.method === 'OPTIONS') {
      const headers = { ...this.#options.access.preflightHeaders(request, 'GET, HEAD, POST'), allow }
      return { status: 200, headers, body: '' }
    }
    if (!allow.split(',').includes(request.method)) return { status: 405, headers: { allow }, body: '' }
    const startedAt = performance.now()
    const report: ReportInternalError = (reference, details) => {
      const text = `request failed (reference ${reference}): ${details}`
      this.#report('error', 'failure', { database: name, reference, details }, text)
    }
    let response: ServiceResponse
    try {
      response = hideInternalError(await route.handle(), report)
    } catch (error) {
      response = toErrorResponse(error, request, report)
    }
    const { body } = response
    if (body instanceof Readable)
      body.once('error', ({ message }) => {
        if (request.controller.signal.aborted) return
        // its status has been sent, so that no reference can reach the client
        const details = `the response to ${path} was cut off: ${message}`
        this.#report('error', 'failure', { database: name, details }, details)
      })
    if (count) count.seconds += (performance.now() - startedAt) / 1_000
    if (count && response.status >= 500) count.failed += 1
    return response
  }

  #getCount(id: DatabaseId): RequestCount {
    const count = this.#counts.get(id) ?? { requests: 0, failed: 0, seconds: 0 }
    this.#counts.set(id, count)
    return count
  }

  #findRoute(target: Target, request: ServiceRequest): Route | null {
    const { path, method, headers } = request
    const { version } = this.#options
    const read = (handle: Route['handle']): Route => ({ allow: 'GET,HEAD', handle })
    switch (path) {
      case '/': {
        const wantsPage = method === 'GET' && String(headers['accept'] ?? '').includes('text/html')
        return wantsPage ? read(() => welcomePage(version, request, this.#inspector !== null)) : null
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
        return allow && { allow, handle: () => this.#forwardObserved(target, request) }
      }
    }
  }

  /** Reports whether a database exists and accepts requests, with the status alone. */
  async #health({ name, record, location }: Target): Promise<ServiceResponse> {
    const { databases, registry, backend } = this.#options.controlPlane
    // the bare URL reports on the server, which may have no default database
    if (record === undefined && name === DEFAULT_DATABASE) return textResponse(200, null, '')
    if (record === undefined || !databases.isReady(record)) return textResponse(404, null, '')
    if (registry.groups.get(record.group)?.isArchived === true) return textResponse(503, null, '')
    const problem = await backend.findHealthProblem(record.id, location).catch(getMessage)
    if (problem !== null) this.#reportOnce(record.id, problem)
    return textResponse(problem === null ? 200 : 503, null, '')
  }

  /** Forwards a request, and records it while the request inspector is open. */
  #forwardObserved(target: Target, request: ServiceRequest): Promise<ServiceResponse> {
    const feed = this.#feed
    // otherwise, the page's own requests would clutter the list
    const isFromInspector = request.headers['x-baton-inspector'] !== undefined
    if (feed === null || !feed.isWatched || isFromInspector) return this.#forward(target, request)
    return feed.watch(target.name, request, (observedRequest) => this.#forward(target, observedRequest))
  }

  async #forward({ name, record, location }: Target, request: ServiceRequest): Promise<ServiceResponse> {
    if (this.#options.access.isCrossSiteLoad(request)) {
      return errorResponse(403, 'Pages on other sites may not load this')
    }
    const { backend, databases, externalTokens, usage } = this.#options.controlPlane
    if (record === undefined || !databases.isReady(record)) return notFound(name)
    const rejection = this.#findRejection(name, record, request)
    if (rejection !== null) return rejection
    let authorizedRequest = request
    const exchange = externalTokens.exchange(record, request, backend.hasTablePermissions)
    if (exchange !== null) {
      const exchanged = await exchange.catch(toRejectionResponse)
      if ('status' in exchanged) return exchanged
      // checks again: access may have been revoked while keys were fetched
      const secondRejection = this.#findRejection(name, record, request)
      if (secondRejection !== null) return secondRejection
      authorizedRequest = exchanged
    }
    usage.touch(record.id)
    const response = await this.failures
      .handle(record.id, authorizedRequest, (each) => backend.handle(record.id, each, location))
      .catch((error: unknown) => {
        if (!(error instanceof MissingFileError)) throw error
        this.#reportOnce(record.id, `${error.message}; requests get 404, and the file is not created again`)
        return notFound(name)
      })
      .finally(() => releaseBodyMemory(authorizedRequest.body))
    usage.onResponse(record.id, response.body)
    const body = this.#watchBody(response.body, record, request)
    // back ends use ids; users see names
    if (response.status < 400 || typeof body !== 'string')
      return body === response.body ? response : { ...response, body }
    return { ...response, body: body.replaceAll(record.id, name) }
  }

  #watchBody(
    body: ServiceResponse['body'],
    record: DatabaseRow,
    request: ServiceRequest,
  ): ServiceResponse['body'] {
    if (request.method === 'POST')
      return watchDiskFaults(body, (fault) => this.#reportDiskFault(record, fault))
    if (!isExportRoute(request.path) || !(body instanceof Readable)) return body
    // bytes are counted before they are passed on: a client that has read all of them may request the usage at once
    const onPart = ({ length }: Buffer): void =>
      this.#options.controlPlane.usage.addBytesSynced(record.id, length)
    return watchBody(body, [{ onPart }])
  }

  /** Rejects requests to an archived group, and requests from an address that is not allowed. */
  #findRejection(
    name: string,
    { id }: DatabaseRow,
    { remoteAddress }: ServiceRequest,
  ): ServiceResponse | null {
    const { databases, groups } = this.#options.controlPlane.registry
    const row = databases.get(id)
    if (row === undefined) return notFound(name)
    if (groups.get(row.group)?.isArchived === true)
      return errorResponse(502, `the group of \`${name}\` is archived; unarchive it first`)
    if (isAddressAllowed(row.configuration.allowedIps, remoteAddress)) return null
    return errorResponse(403, `\`${name}\` cannot be reached from this address`)
  }

  #reportDiskFault({ id, configuration }: DatabaseRow, fault: DiskFault): void {
    // reaching a configured size limit is not a disk fault
    if (fault === 'SQLITE_FULL' && configuration.sizeLimitBytes !== null) return
    this.#reportOnce(id, DISK_FAULTS[fault])
  }

  /** Reports a fault, at most once a minute per database. */
  #reportOnce(id: DatabaseId, fault: string): void {
    const now = performance.now()
    const times = this.#faults.get(id) ?? new Map<string, number>()
    if (now - (times.get(fault) ?? -Infinity) < FAULT_INTERVAL_MS) return
    this.#faults.set(id, times.set(fault, now))
    this.reportNotice(id, fault)
  }
}

/** The database that a request addresses, if it exists. */
interface Target {
  readonly name: string
  readonly record: DatabaseRow | undefined
  /** Location of the replica that the request addresses; null for the primary. */
  readonly location: string | null
}

/** Rejects a body for methods that have none: it could be parsed as the next request. */
function findBodyRejection({ method, headers }: ServiceRequest): ServiceResponse | null {
  const length = headers['content-length'] ?? '0'
  // other methods are rejected by the route
  const isRead = ['GET', 'HEAD', 'OPTIONS'].includes(method)
  if (!isRead || (length === '0' && headers['transfer-encoding'] === undefined)) return null
  const { body } = errorResponse(400, `A ${method} request must not have a body`)
  return { status: 400, headers: { 'content-type': 'application/json', connection: 'close' }, body }
}

function toRejectionResponse(error: unknown): ServiceResponse {
  if (!(error instanceof ApiError)) throw error
  return errorResponse(error.status, error.message)
}

function notFound(name: string): ServiceResponse {
  return errorResponse(404, `Namespace \`${name}\` doesn't exist`)
}

const getMessage = (error: unknown): string => (error instanceof Error ? error.message : String(error))
