import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { AccessPolicy } from '../auth/access-policy.ts'
import { checkOptionNames } from '../base/known-options.ts'
import type { ControlPlane } from '../control-plane/control-plane.ts'
import { Refusal } from '../control-plane/refusal.ts'
import { createPlatformApp } from '../control-plane/routes/app.ts'
import { DumpStore } from '../control-plane/routes/dump-store.ts'
import { readLimited } from '../control-plane/routes/read-body.ts'
import { listen, urlOf } from '../http/listen.ts'
import { errorResponse, type ServiceResponse, textResponse } from '../http/service-request.ts'
import { loginPage, loginRedirect, readLogin } from './login-page.ts'
import type { ServerLog } from './server-log.ts'

/** How the platform API is served. */
export interface PlatformOptions {
  /** @default a free one */
  readonly port?: number
  /** Slug of the organization that the databases of this server belong to. @default 'local' */
  readonly organization?: string
  /**
   * What follows `<database>-<organization>.` in the host names of databases, with its port, as `db.example:8443`: for a
   * server behind a proxy with TLS. By default databases are at `127.0.0.1:PORT/<database>`.
   */
  readonly domain?: string
  /** How long a database made through the API answers 404 at first, in ms, as it does in the cloud. @default 0 */
  readonly readyDelayMs?: number
  /** Status for a name that is taken: 409 stands in the service's documents, 400 was seen. @default 409 */
  readonly takenNameStatus?: 400 | 409
}

const OPTION_NAMES = ['port', 'organization', 'domain', 'readyDelayMs', 'takenNameStatus'] as const
const SLUG = /^[a-z0-9][a-z0-9-]{0,38}$/
const DOMAIN = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?$/

/** Throws for what cannot be. */
export function checkPlatformOptions(options: PlatformOptions): void {
  checkOptionNames('platform', options, OPTION_NAMES)
  const { organization, domain, readyDelayMs = 0, takenNameStatus = 409 } = options
  if (organization !== undefined && !SLUG.test(organization))
    throw new TypeError('platform: organization is a slug: 1 to 39 of a-z, 0-9 and "-"')
  if (domain !== undefined && !DOMAIN.test(domain))
    throw new TypeError(
      'platform: domain is a host name in lower case, such as "db.example" or "db.example:8443"',
    )
  if (!Number.isInteger(readyDelayMs) || readyDelayMs < 0)
    throw new RangeError('platform: readyDelayMs is a whole number of milliseconds')
  if (takenNameStatus !== 400 && takenNameStatus !== 409)
    throw new RangeError('platform: takenNameStatus is 400 or 409')
}

/** What the platform API is served for. */
export interface PlatformParts {
  readonly controlPlane: ControlPlane
  readonly access: AccessPolicy
  readonly dataDirectory: string
  readonly host: string
  /** What databases are reached at, as `127.0.0.1:8080`. */
  readonly databaseOrigin: () => string
  readonly version: string
  /** What Prometheus reads. */
  readonly metrics: () => string
  readonly log: ServerLog
}

/** The platform API on a port of its own. */
export class PlatformServer {
  readonly #http: Server
  readonly #host: string
  readonly #dumps: DumpStore

  private constructor(http: Server, host: string, dumps: DumpStore) {
    this.#http = http
    this.#host = host
    this.#dumps = dumps
  }

  static async start(options: PlatformOptions, parts: PlatformParts): Promise<PlatformServer> {
    const { controlPlane, access, dataDirectory, host, databaseOrigin, version, metrics, log } = parts
    const http = createServer({ insecureHTTPParser: false, requireHostHeader: true })
    const dumps = await DumpStore.open(join(dataDirectory, 'dumps'))
    const server = new PlatformServer(http, host, dumps)
    const app = createPlatformApp({
      plane: controlPlane,
      dumps,
      databaseOrigin,
      url: () => server.url,
      readyDelayMs: options.readyDelayMs ?? 0,
      takenNameStatus: options.takenNameStatus ?? 409,
      version: version.replace(/ .*$/, ''),
    })
    http.on(
      'request',
      (from: IncomingMessage, to: ServerResponse) =>
        void serve({ app, access, controlPlane, metrics }, from, to),
    )
    log.watch(http, 'platform')
    await listen(http, options.port ?? 0, host)
    return server
  }

  get url(): string {
    return urlOf(this.#host, (this.#http.address() as AddressInfo).port)
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#http.close(resolve))
    this.#http.closeAllConnections()
    await closed
    await this.#dumps.close()
  }
}

interface Handler extends Pick<PlatformParts, 'controlPlane' | 'metrics'> {
  readonly app: (request: Request) => Promise<Response>
  readonly access: AccessPolicy
}

async function serve(parts: Handler, from: IncomingMessage, to: ServerResponse): Promise<void> {
  const { app, access } = parts
  try {
    const exchange = { headers: from.headers, method: from.method ?? 'GET' }
    const refusal = access.refusalOf(exchange) ?? refusalOfTarget(from.url ?? '/')
    const cors = access.corsHeaders(exchange)
    if (refusal !== null) return respondWith(to, refusal)
    if (from.method === 'OPTIONS') {
      const headers = { ...cors, ...access.preflightHeaders(exchange, 'GET, POST, PUT, PATCH, DELETE') }
      return respondWith(to, { status: 204, headers, body: '' })
    }
    const path = (from.url ?? '/').replace(/[?#].*$/, '')
    if (path === '/' || path === '/signup') return respondWith(to, await login(parts, from))
    if (path === '/metrics') return respondWith(to, answerMetrics(parts, from))
    const response = await app(toRequest(from))
    for (const [name, value] of [...response.headers, ...Object.entries(cors)]) to.setHeader(name, value)
    to.statusCode = response.status
    // what was not read must not be taken for the next request
    if (!from.complete) to.setHeader('connection', 'close')
    if (from.method === 'HEAD' || response.body === null) to.end()
    else await pipeline(Readable.fromWeb(response.body), to)
  } catch {
    if (to.headersSent) to.destroy()
    else respondWith(to, errorResponse(500, 'internal error'))
  }
}

/** For the operator alone: it names the databases of all organizations. */
function answerMetrics({ controlPlane, metrics }: Handler, from: IncomingMessage): ServiceResponse {
  if (from.method !== 'GET') return errorResponse(405, 'GET only')
  try {
    const { user, token } = controlPlane.apiTokens.check(from.headers.authorization)
    if (user.id !== controlPlane.home.owner.id || token.organization !== null || token.group !== null)
      return errorResponse(
        403,
        'metrics need a token of the owner with the scope metrics, or an unrestricted one',
      )
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return errorResponse(error.status, error.message)
  }
  return textResponse(200, 'text/plain; version=0.0.4', metrics())
}

/** The page that the vendor's command line sends a browser to, and what it comes back with. */
async function login({ controlPlane }: Handler, from: IncomingMessage): Promise<ServiceResponse> {
  if (from.method !== 'POST') {
    const { searchParams } = new URL(from.url ?? '/', 'http://platform')
    return loginPage(readLogin(searchParams), null)
  }
  const fields = new URLSearchParams(await readLimited(Readable.toWeb(from) as ReadableStream<Uint8Array>))
  const token = fields.get('token') ?? ''
  const request = readLogin(fields)
  if (request.port === null) return loginPage(request, 'No command waits for the answer.')
  try {
    controlPlane.apiTokens.check(`Bearer ${token}`)
  } catch {
    return loginPage(request, 'This is no API token of this server.')
  }
  return loginRedirect(request, token)
}

/** A path is looked at as it was sent: reading it as a URL would resolve what is hidden in it. */
function refusalOfTarget(target: string): ServiceResponse | null {
  const [path = ''] = target.split(/[?#]/, 1)
  const isPlain = path.startsWith('/') && path.split('/').every(isPlainSegment)
  return isPlain ? null : errorResponse(400, 'invalid path')
}

function isPlainSegment(segment: string): boolean {
  try {
    const text = decodeURIComponent(segment)
    // oxlint-disable-next-line no-control-regex -- these are what is refused
    return text !== '.' && text !== '..' && !/[/\\\u0000-\u001f\u007f]/.test(text)
  } catch {
    return false
  }
}

function toRequest(from: IncomingMessage): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(from.headers)) {
    for (const one of [value ?? []].flat()) headers.append(name, one)
  }
  const url = new URL(from.url ?? '/', 'http://platform')
  // the vendor's command line sends a body with it, and a GET request has none here
  const isTemplate = from.method === 'GET' && url.pathname.endsWith('/jwks-template')
  const method = isTemplate ? 'POST' : (from.method ?? 'GET')
  const hasBody = method !== 'GET' && method !== 'HEAD'
  return new Request(url, {
    method,
    headers,
    ...(hasBody && { body: Readable.toWeb(from) as ReadableStream<Uint8Array>, duplex: 'half' }),
  })
}

function respondWith(to: ServerResponse, { status, headers, body }: ServiceResponse): void {
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) to.setHeader(name, value)
  to.statusCode = status
  to.setHeader('connection', 'close')
  to.end(body)
}
