import { Hono } from 'hono'
import * as v from 'valibot'
import { Refusal } from '../refusal.ts'
import { authorise } from './authorise.ts'
import { Call, type Platform, type ReadRequest } from './call.ts'
import type { Route } from './route.ts'
import { ROUTES } from './table.ts'

/** The largest JSON body, in bytes. */
const MAX_BODY_BYTES = 1_024 ** 2
/** How deep a JSON body may be. */
const MAX_DEPTH = 16
const OWN_PREFIX = /^(\/v\d)\/organizations\/:organizationSlug(?=\/)/

/** The platform API as a function of requests. */
export function createPlatformApp(platform: Platform): (request: Request) => Promise<Response> {
  const app = new Hono({ strict: false })
  const wholePaths = new Set(ROUTES.map(({ method, path }) => `${method} ${path}`))
  for (const route of ROUTES) {
    app.on(route.method, route.path, ({ req }) => answer(platform, route, req.raw, req.param()))
    // who has no organization selected means the own one, and leaves it out
    const short = route.path.replace(OWN_PREFIX, '$1')
    if (short !== route.path && !wholePaths.has(`${route.method} ${short}`))
      app.on(route.method, short, ({ req }) => answer(platform, route, req.raw, req.param()))
  }
  app.notFound(() => errorJson(404, 'there is no such route'))
  return async (request) => await app.fetch(request)
}

async function answer(
  platform: Platform,
  route: Route,
  raw: Request,
  params: Readonly<Record<string, string>>,
): Promise<Response> {
  try {
    const { access } = route
    const slug = params['organizationSlug'] ?? null
    const grant =
      access.level === 'none'
        ? null
        : authorise(platform.plane.registry, {
            access,
            slug,
            caller: await platform.plane.apiTokens.check(raw.headers.get('authorization') ?? undefined),
          })
    const request: ReadRequest = {
      params,
      query: new URL(raw.url).searchParams,
      body: await readBody(raw),
      userAgent: raw.headers.get('user-agent') ?? '',
      raw,
    }
    const result: unknown = await route.handle(new Call(platform, request, grant))
    return result === undefined ? new Response(null, { status: 200 }) : Response.json(result)
  } catch (error) {
    return refusalResponse(error)
  }
}

/** What is answered instead of the result, in the service's form of an error. */
export function refusalResponse(error: unknown): Response {
  if (error instanceof Refusal) return errorJson(error.status, error.message, error.code)
  if (error instanceof v.ValiError)
    return errorJson(400, describeIssues(error.issues as v.BaseIssue<unknown>[]))
  return errorJson(500, `internal error: ${error instanceof Error ? error.message : String(error)}`)
}

function errorJson(status: number, error: string, code?: string): Response {
  return Response.json({ error, ...(code !== undefined && { code }) }, { status })
}

function describeIssues(issues: readonly v.BaseIssue<unknown>[]): string {
  const [issue] = issues
  const path = (issue?.path ?? []).map(({ key }) => String(key)).join('.')
  return `invalid request body: ${path === '' ? '' : `${path}: `}${issue?.message ?? 'unknown'}`.slice(0, 300)
}

/** JSON whatever it calls itself: clients send it as text, or without a type. */
async function readBody(raw: Request): Promise<Readonly<Record<string, unknown>>> {
  if (raw.body === null || raw.headers.get('content-type')?.startsWith('multipart/') === true) return {}
  const text = await readLimited(raw.body)
  if (text.trim() === '') return {}
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Refusal(400, 'invalid request body: it is not JSON')
  }
  if (value === null) return {}
  if (typeof value !== 'object' || Array.isArray(value))
    throw new Refusal(400, 'invalid request body: it is not an object')
  return lowerKeys(value, 0) as Readonly<Record<string, unknown>>
}

async function readLimited(body: ReadableStream<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of body) {
    size += part.length
    if (size > MAX_BODY_BYTES) throw new Refusal(413, `a request body has ${MAX_BODY_BYTES} bytes at most`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

/** The service reads keys without regard for case, and its command line counts on that. */
function lowerKeys(value: unknown, depth: number): unknown {
  if (depth > MAX_DEPTH) throw new Refusal(400, 'invalid request body: it is too deep')
  if (Array.isArray(value)) return value.map((item) => lowerKeys(item, depth + 1))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name.toLowerCase(), lowerKeys(item, depth + 1)]),
  )
}
