import { getHostName, isLoopback } from '@batonsql/server-common/auth'
import { errorResponse, type ServiceRequest, type ServiceResponse } from '@batonsql/server-common/http'
import { readPageFile } from '#page-files'
import type { InspectorFeed } from './inspector-feed.ts'

export const INSPECTOR_PATH = '/_baton'
const NOT_A_DATABASE = `this is the request inspector, not a database: leave out ${INSPECTOR_PATH}`

const PAGE_FILES: ReadonlyMap<string, PageFile> = new Map<string, PageFile>([
  ['', ['page.html', 'text/html; charset=utf-8']],
  ['/page.css', ['page.css', 'text/css; charset=utf-8']],
  ['/page.js', ['page.js', 'text/javascript; charset=utf-8']],
])
type PageFile = readonly [file: string, contentType: string]

const RESPONSE_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
} as const

/** Handles requests for the request inspector: the page, its files, and its events. */
export class InspectorPage {
  readonly #feed: InspectorFeed
  readonly #databaseNames: () => readonly string[]

  /** @param databaseNames lists the databases that the page can show */
  constructor(feed: InspectorFeed, databaseNames: () => readonly string[]) {
    this.#feed = feed
    this.#databaseNames = databaseNames
  }

  /** Whether a path belongs to the request inspector. */
  static handlesPath(path: string): boolean {
    return path === INSPECTOR_PATH || path.startsWith(`${INSPECTOR_PATH}/`)
  }

  async handle(request: ServiceRequest): Promise<ServiceResponse> {
    const rejection = findRejection(request)
    if (rejection !== null) return errorResponse(403, rejection)
    if (request.method !== 'GET') {
      const { headers, body } = errorResponse(405, NOT_A_DATABASE)
      return { status: 405, headers: { ...headers, allow: 'GET' }, body }
    }
    const name = request.path.slice(INSPECTOR_PATH.length)
    if (name === '/events') return this.#events()
    if (name === '/databases') return jsonResponse(this.#databaseNames())
    const pageFile = PAGE_FILES.get(name)
    if (pageFile === undefined) return { status: 404, headers: RESPONSE_HEADERS, body: '' }
    const [file, contentType] = pageFile
    const body = await readPageFile(file)
    return { status: 200, headers: { ...RESPONSE_HEADERS, 'content-type': contentType }, body }
  }

  #events(): ServiceResponse {
    const body = this.#feed.open()
    if (body === null) return errorResponse(429, 'Too many inspector pages connected')
    return { status: 200, headers: { ...RESPONSE_HEADERS, 'content-type': 'text/event-stream' }, body }
  }
}

const jsonResponse = (value: unknown): ServiceResponse => ({
  status: 200,
  headers: { ...RESPONSE_HEADERS, 'content-type': 'application/json' },
  body: JSON.stringify(value),
})

/** Returns why a request is rejected; null for a browser on this machine. */
function findRejection(request: ServiceRequest): string | null {
  const { headers, remoteAddress } = request
  const address = remoteAddress?.replace(/^::ffff:/i, '') ?? ''
  const isForwarded = headers['x-forwarded-for'] !== undefined || headers['forwarded'] !== undefined
  const host = getHostName(request) ?? ''
  // names under localhost belong to databases and other programs
  const isOwnName = isLoopback(host) && !/\.localhost$/i.test(host)
  if (!isLoopback(address) || !isOwnName || isForwarded)
    return 'The request inspector is limited to this machine'
  const origin = headers['origin']
  const site = headers['sec-fetch-site']
  const isOwnOrigin = origin === undefined || origin === `http://${String(headers['host'])}`
  const isOwnSite = site === undefined || site === 'same-origin' || site === 'none'
  return isOwnOrigin && isOwnSite ? null : 'Other pages cannot read the request inspector'
}
