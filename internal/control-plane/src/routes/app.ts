import { Hono } from 'hono'
import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import { isDiskFull } from '../is-disk-full.ts'
import type { Registry } from '../registry/registry.ts'
import type { OrganizationRow } from '../registry/rows.ts'
import type { Grant } from './access.ts'
import { authorize } from './authorize.ts'
import { Call, type ParsedRequest, type Platform } from './call.ts'
import { openApiDocument } from './openapi.ts'
import { readBody } from './read-body.ts'
import type { Route } from './route.ts'
import { ROUTES } from './table.ts'

const ORGANIZATION_PATH = /^(\/v\d)\/organizations\/:organizationSlug(\/.*)$/

/** Returns the platform API as a function that handles requests. */
export function createPlatformApp(platform: Platform): (request: Request) => Promise<Response> {
  const app = new Hono({ strict: false })
  const fullPaths = new Set(ROUTES.map(({ method, path }) => `${method} ${path}`))
  for (const route of ROUTES) {
    app.on(route.method, route.path, ({ req }) => respond(platform, route, req.raw, req.param()))
    for (const shortPath of getShortPaths(route.path))
      if (!fullPaths.has(`${route.method} ${shortPath}`))
        app.on(route.method, shortPath, ({ req }) => respond(platform, route, req.raw, req.param()))
  }
  app.get('/openapi.json', () => Response.json(openApiDocument(ROUTES, platform.plane.version)))
  app.notFound(() => errorJson(404, 'route not found'))
  return async (request) => await app.fetch(request)
}

/**
 * Returns the paths that a client uses if no organization is selected: without `/organizations/SLUG`, or with an empty slug. They
 * refer to the user's own organization. For `/v1/organizations/:organizationSlug/databases`, these are `/v1/databases` and
 * `/v1/organizations//databases`.
 */
function getShortPaths(path: string): readonly string[] {
  const [, version, rest] = ORGANIZATION_PATH.exec(path) ?? []
  return rest === undefined ? [] : [`${version}${rest}`, `${version}/organizations/${rest}`]
}

async function respond(
  platform: Platform,
  route: Route,
  raw: Request,
  params: Readonly<Record<string, string>>,
): Promise<Response> {
  try {
    // checked first, so that the body of an unauthorized request is not read
    authorizeRequest(platform, route, raw, params)
    const request: ParsedRequest = {
      params,
      query: new URL(raw.url).searchParams,
      body: await readBody(raw),
      userAgent: raw.headers.get('user-agent') ?? '',
      raw,
    }
    // checked again: access may have been revoked while the body was read
    const grant = authorizeRequest(platform, route, raw, params)
    const result: unknown = await route.handle(new Call(platform, request, grant))
    return result === undefined ? new Response(null, { status: 200 }) : Response.json(result)
  } catch (error) {
    return toErrorResponse(error)
  }
}

/** Authorizes a request. @returns the granted access; null for a public route @throws ApiError */
function authorizeRequest(
  { plane }: Platform,
  { access }: Route,
  raw: Request,
  params: Readonly<Record<string, string>>,
): Grant | null {
  if (access.level === 'none') return null
  const caller = plane.apiTokens.authenticate(raw.headers.get('authorization') ?? undefined)
  return authorize(plane.registry, {
    access,
    pathOrganization: resolveOrganization(plane.registry, params),
    caller,
  })
}

/** Returns the organization of a path, by its slug or its id; undefined if it does not exist, null if the path has none. */
function resolveOrganization(
  { findOrganization, organizations }: Registry,
  { organizationSlug: slug, organizationId: id }: Readonly<Record<string, string>>,
): OrganizationRow | undefined | null {
  if (slug !== undefined) return findOrganization(slug)
  return id === undefined ? null : organizations.get(id)
}

/** Converts an error to a response in the service's format, and logs an unexpected one. */
function toErrorResponse(error: unknown): Response {
  if (error instanceof ApiError) return errorJson(error.status, error.message, error.code)
  if (error instanceof v.ValiError)
    return errorJson(400, describeFirstIssue(error.issues as v.BaseIssue<unknown>[]))
  // logged for the operator only: the message may contain paths or other users' names
  console.error(error)
  return errorJson(500, isDiskFull(error) ? 'the disk of the server is full' : 'internal error')
}

function errorJson(status: number, error: string, code?: string): Response {
  return Response.json({ error, ...(code !== undefined && { code }) }, { status })
}

function describeFirstIssue(issues: readonly v.BaseIssue<unknown>[]): string {
  const [issue] = issues
  const path = (issue?.path ?? []).map(({ key }) => String(key)).join('.')
  return `invalid request body: ${path === '' ? '' : `${path}: `}${issue?.message ?? 'unknown'}`.slice(0, 300)
}
