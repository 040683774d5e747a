import type { IncomingMessage, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { ApiError } from '@batonsql/control-plane'
import { createPlatformApp, DumpStore, readLimitedText } from '@batonsql/control-plane/routes'
import {
  createHttpServer,
  errorResponse,
  getLocalUrl,
  listen,
  type ServiceResponse,
  textResponse,
  toResponse,
} from '@batonsql/server-common/http'
import { getRequestListener, RequestError } from '@hono/node-server'
import { loginPage, loginRedirect, parseLogin } from './login-page.ts'
import { IMITATED_VERSION } from './package-version.ts'
import type { PlatformOptions } from './platform-options.ts'
import type { ServiceParts } from './service.ts'

/** Dependencies of the platform API's server. */
export interface PlatformDependencies extends ServiceParts {
  /** Host and port of the databases, such as `127.0.0.1:8080`. */
  readonly databaseOrigin: () => string
}

/** How long the upload of a dump may take. */
const UPLOAD_LIMIT_MS = 300_000

/** Serves the platform API on its own port. */
export class PlatformServer {
  readonly #http: Server
  readonly #host: string
  readonly #dumps: DumpStore

  private constructor(http: Server, host: string, dumps: DumpStore) {
    this.#http = http
    this.#host = host
    this.#dumps = dumps
  }

  static async start(options: PlatformOptions, parts: PlatformDependencies): Promise<PlatformServer> {
    const { controlPlane, directory, host, databaseOrigin, version, log } = parts
    const http = createHttpServer()
    http.requestTimeout = UPLOAD_LIMIT_MS
    const dumps = await DumpStore.open(join(directory, 'dumps'))
    const server = new PlatformServer(http, host, dumps)
    const api = createPlatformApp({
      plane: controlPlane,
      dumps,
      databaseOrigin,
      url: () => server.url,
      readyDelayMs: options.readyDelayMs ?? 0,
      takenNameStatus: options.takenNameStatus ?? 409,
      version: `v${/^sqld (\S+)/.exec(version)?.[1] ?? IMITATED_VERSION}`,
    })
    const handler = { ...parts, api }
    const listener = getRequestListener(
      (request, { incoming }) => handle(handler, request, incoming as IncomingMessage),
      { overrideGlobalObjects: false, errorHandler: failureResponse },
    )
    http.on('request', (incoming, outgoing) => void listener(incoming, outgoing))
    log.watch(http, 'platform')
    await listen(http, options.port ?? 0, host)
    return server
  }

  get url(): string {
    return getLocalUrl(this.#host, (this.#http.address() as AddressInfo).port)
  }

  async close(): Promise<void> {
    const closing = new Promise((resolve) => this.#http.close(resolve))
    this.#http.closeAllConnections()
    await closing
    await this.#dumps.close()
  }
}

interface Handler extends ServiceParts {
  readonly api: (request: Request) => Promise<Response>
}

async function handle(handler: Handler, request: Request, incoming: IncomingMessage): Promise<Response> {
  const { loss } = handler.controlPlane
  const rejection =
    (loss && errorResponse(503, loss.message)) ??
    handler.access.findRejection(incoming) ??
    checkTarget(incoming.url ?? '/')
  const response = rejection === null ? await route(handler, request, incoming) : toResponse(rejection)
  // the rest of a rejected upload is not read
  if (!incoming.complete) response.headers.set('connection', 'close')
  return response
}

async function route(handler: Handler, request: Request, incoming: IncomingMessage): Promise<Response> {
  const { access, api, controlPlane } = handler
  const cors = access.corsHeaders(incoming)
  if (request.method === 'OPTIONS') {
    const headers = { ...cors, ...access.preflightHeaders(incoming, 'GET, POST, PUT, PATCH, DELETE') }
    return new Response(null, { status: 204, headers })
  }
  const { pathname } = new URL(request.url)
  if (pathname === '/' || pathname === '/signup') return toResponse(await login(handler, request))
  if (pathname === '/metrics') return toResponse(metricsResponse(handler, request))
  // the vendor's CLI sends a body with this GET request, which a `Request` cannot have
  const isTemplate = request.method === 'GET' && pathname.endsWith('/jwks-template')
  const response = await controlPlane.track(api(isTemplate ? toPostRequest(request, incoming) : request))
  for (const [name, value] of Object.entries(cors)) response.headers.set(name, value)
  return response
}

/** Reports a failure without its details, which may be internal, and without receiving the rest of the request. */
function failureResponse(error: unknown): Response {
  const [status, text] = error instanceof RequestError ? [400, 'invalid path'] : [500, 'internal error']
  return Response.json({ error: text }, { status, headers: { connection: 'close' } })
}

/** Returns the metrics, but only to the operator, because they name the databases of all organizations. */
function metricsResponse({ controlPlane, router }: Handler, request: Request): ServiceResponse {
  if (request.method !== 'GET') return errorResponse(405, 'GET only')
  try {
    const { user, token } = controlPlane.apiTokens.authenticate(
      request.headers.get('authorization') ?? undefined,
    )
    if (user.id !== controlPlane.operator.owner.id || token.organization !== null || token.group !== null)
      return errorResponse(
        403,
        'metrics require a token of the owner that is unrestricted or has the scope metrics',
      )
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return errorResponse(error.status, error.message)
  }
  return textResponse(200, 'text/plain; version=0.0.4', router.metrics())
}

/** Serves the page that the vendor's CLI opens in a browser, and handles its form. */
async function login({ controlPlane }: Handler, request: Request): Promise<ServiceResponse> {
  if (request.method !== 'POST' || request.body === null)
    return loginPage(parseLogin(new URL(request.url).searchParams), null)
  const fields = new URLSearchParams(await readLimitedText(request.body))
  const token = fields.get('token') ?? ''
  const loginRequest = parseLogin(fields)
  if (loginRequest.port === null) return loginPage(loginRequest, 'No command is waiting for a token.')
  try {
    controlPlane.apiTokens.authenticate(`Bearer ${token}`)
  } catch {
    return loginPage(loginRequest, 'This is not an API token for this server.')
  }
  return loginRedirect(loginRequest, token)
}

/** Checks the path as it was sent, because parsing it as a URL would resolve hidden segments. */
function checkTarget(target: string): ServiceResponse | null {
  const [path = ''] = target.split(/[?#]/, 1)
  const isPlain = path.startsWith('/') && path.split('/').every(isPlainSegment)
  return isPlain ? null : errorResponse(400, 'invalid path')
}

function isPlainSegment(segment: string): boolean {
  try {
    const text = decodeURIComponent(segment)
    // oxlint-disable-next-line no-control-regex -- control characters are rejected
    return text !== '.' && text !== '..' && !/[/\\\u0000-\u001f\u007f]/.test(text)
  } catch {
    return false
  }
}

function toPostRequest(request: Request, incoming: IncomingMessage): Request {
  const body = Readable.toWeb(incoming) as ReadableStream<Uint8Array>
  return new Request(request.url, { method: 'POST', headers: request.headers, body, duplex: 'half' })
}
