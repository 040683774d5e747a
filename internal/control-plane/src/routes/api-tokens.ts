import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import type { ApiTokenRow } from '../registry/rows.ts'
import { checkTokenName, shorten } from '../rules/names.ts'
import { isAtLeast } from '../rules/roles.ts'
import type { Scope } from '../rules/scopes.ts'
import { expandScopes, METRICS_ONLY } from '../rules/scopes.ts'
import { ANY_TOKEN, OWN_USER } from './access.ts'
import { findRole } from './authorize.ts'
import type { Call } from './call.ts'
import { Integer } from './json-types.ts'
import { ApiToken } from './models.ts'
import { documented, ORGANIZATION, type Route, returns, undocumented } from './route.ts'
import { apiTokenView } from './views.ts'

const NewTokenBody = v.object({
  organization: v.nullish(v.string()),
  group: v.nullish(v.string()),
  scopes: v.nullish(v.array(v.string())),
})

const MINT = returns({ name: v.string(), id: v.string(), token: v.string() }, { body: NewTokenBody })
const MINT_V2 = returns(
  { token: v.object({ name: v.string(), id: v.string(), value: v.string() }) },
  { body: NewTokenBody },
)
const REVOKE = returns({ token: v.string() })
const OwnedToken = v.object({
  ...ApiToken.entries,
  owner: v.object({ username: v.string(), email: v.string() }),
})

export const apiTokenRoutes: readonly Route[] = [
  // API tokens do not expire
  documented('GET /v1/auth/validate', ANY_TOKEN, returns({ exp: Integer }), () => ({
    exp: -1,
  })),
  documented('GET /v1/auth/api-tokens', OWN_USER, returns({ tokens: v.array(ApiToken) }), listOwnTokens),
  documented('POST /v1/auth/api-tokens/:tokenName', OWN_USER, MINT, (call) => {
    const { row, secret } = mint(call)
    return { name: row.name, id: row.id, token: secret }
  }),
  undocumented('POST /v2/auth/api-tokens/:tokenName', OWN_USER, MINT_V2, (call) => {
    const { row, secret } = mint(call)
    return { token: { name: row.name, id: row.id, value: secret } }
  }),
  documented('DELETE /v1/auth/api-tokens/:tokenName', OWN_USER, REVOKE, revokeOwnToken),
  undocumented('POST /v1/auth/invalidate', OWN_USER, returns({ ValidFrom: Integer }), invalidateAll),
  documented(
    `GET ${ORGANIZATION}/api-tokens`,
    'viewer',
    returns({ tokens: v.array(OwnedToken) }),
    listOrganizationTokens,
  ),
  documented(`DELETE ${ORGANIZATION}/api-tokens/:tokenId`, 'viewer', REVOKE, revokeOrganizationToken),
]

function getOwnTokens({ plane: { registry }, caller: { user } }: Call): readonly ApiTokenRow[] {
  return registry.apiTokens.rows.filter((row) => row.user === user.id)
}

function listOwnTokens(call: Call) {
  return { tokens: getOwnTokens(call).map((row) => apiTokenView(call, row)) }
}

function mint(call: Call): { row: ApiTokenRow; secret: string } {
  const name = call.param('tokenName')
  checkTokenName(name)
  const row = call.plane.apiTokens.createRow(call.caller.user, { name, ...readTokenScope(call) })
  const audit = { code: 'user-token-create', message: `created API token ${name}`, data: { token: name } }
  const change = (): void => call.plane.registry.apiTokens.put(row)
  call.commit(audit, change, row.organization ?? undefined)
  return { row, secret: call.plane.apiTokens.getSecret(row) }
}

function readTokenScope(call: Call): Pick<ApiTokenRow, 'organization' | 'group' | 'scopes'> {
  const { registry } = call.plane
  const { organization: slug, group: groupName, scopes } = call.body(NewTokenBody)
  if (slug == null) {
    if (groupName == null && scopes?.length === 1 && scopes[0] === 'metrics') return getMetricsScope(call)
    if (groupName != null || scopes != null)
      throw new ApiError(400, 'a group, and scopes other than metrics, require an organization')
    return { organization: null, group: null, scopes: null }
  }
  const organization = registry.findOrganization(slug)
  const role = findRole(registry, call.caller, organization)
  if (organization === undefined || role === undefined) throw new ApiError(404, 'organization not found')
  if (groupName == null) {
    if (scopes != null) throw new ApiError(400, 'scopes need a group')
    return { organization: organization.id, group: null, scopes: null }
  }
  if (!isAtLeast(role, 'admin'))
    throw new ApiError(403, 'group-scoped tokens are only allowed for admin or owner')
  const group = registry.findGroup(organization.id, groupName)
  if (group === undefined) throw new ApiError(404, 'group not found')
  const expandedScopes: readonly Scope[] = expandScopes(scopes ?? [])
  return { organization: organization.id, group: group.id, scopes: expandedScopes }
}

/** Returns the scope of a token for metrics. @throws ApiError 403 unless the caller owns the server: metrics list all databases */
function getMetricsScope({ plane, caller }: Call): Pick<ApiTokenRow, 'organization' | 'group' | 'scopes'> {
  if (caller.user.id !== plane.operator.owner.id)
    throw new ApiError(403, 'metrics are available only to the owner of this server')
  return { organization: null, group: null, scopes: METRICS_ONLY }
}

function revokeOwnToken(call: Call) {
  const name = call.param('tokenName')
  const row = call.plane.registry.findToken(call.caller.user.id, name)
  if (row === undefined) throw new ApiError(404, `could not find API token ${shorten(name)}`)
  call.commit(null, () => call.plane.registry.apiTokens.delete(row.id))
  return { token: name }
}

/** Revokes all tokens of the user. Returns the time from which new tokens are valid, in seconds since the Unix epoch. */
function invalidateAll(call: Call) {
  const rows = getOwnTokens(call)
  call.commit(null, () => {
    for (const { id } of rows) call.plane.registry.apiTokens.delete(id)
  })
  return { ValidFrom: Math.floor(Date.now() / 1_000) }
}

/** Returns the tokens scoped to the organization: all of them for admins, only their own for other callers. */
function getVisibleTokens({ plane: { registry }, organization, caller, role }: Call): readonly ApiTokenRow[] {
  const seesAll = role !== null && isAtLeast(role, 'admin')
  return registry.apiTokens.rows.filter(
    (row) => row.organization === organization.id && (seesAll || row.user === caller.user.id),
  )
}

function listOrganizationTokens(call: Call) {
  const tokens = getVisibleTokens(call).map((row) => {
    const owner = call.plane.registry.users.get(row.user)
    return { ...apiTokenView(call, row), owner: { username: owner?.username, email: owner?.email } }
  })
  return { tokens }
}

/** Revokes a token. Reports tokens that the caller may not see as not found, so that ids of other organizations are not revealed. */
function revokeOrganizationToken(call: Call) {
  const id = call.param('tokenId')
  const row = getVisibleTokens(call).find((token) => token.id === id)
  if (row === undefined) throw new ApiError(404, 'token not found')
  call.commit(null, () => call.plane.registry.apiTokens.delete(id))
  return { token: id }
}
