import { isLoopback } from '@batonsql/server-common/auth'
import * as v from 'valibot'
import { ApiError, notSupported } from '../api-error.ts'
import { compositeKey } from '../registry/registry.ts'
import type { KeySetRow } from '../registry/rows.ts'
import { checkTokenName, shorten } from '../rules/names.ts'
import type { Call } from './call.ts'
import { TablePermissions } from './json-types.ts'
import { ORGANIZATION_V2, type Route, returns, undocumented } from './route.ts'

const MAX_KEY_SETS = 10
const MAX_URL_LENGTH = 2_000

const TemplateBody = v.object({
  database: v.nullish(v.string()),
  group: v.nullish(v.string()),
  scope: v.optional(v.picklist(['full-access', 'read-only']), 'full-access'),
  permissions: v.nullish(TablePermissions),
})

const KeySetBody = v.object({ jwks_url: v.string() })
const LIST = returns({ jwks: v.array(v.object({ jwks_name: v.string(), jwks_url: v.string() })) })
/** Claims of a token: access, database or group, and permissions on tables. */
const ClaimsTemplate = v.object({
  a: v.picklist(['ro', 'rw']),
  id: v.optional(v.string()),
  gid: v.optional(v.string()),
  perm: TablePermissions,
})

/** Manages the key sets (JWKS) of issuers whose tokens the databases of an organization accept. */
export const keySetRoutes: readonly Route[] = [
  undocumented(`GET ${ORGANIZATION_V2}/jwks`, 'viewer', LIST, (call) => ({
    jwks: getKeySets(call).map(({ name, url }) => ({ jwks_name: name, jwks_url: url })),
  })),
  undocumented(
    `PUT ${ORGANIZATION_V2}/jwks/:jwksName`,
    'member',
    { body: KeySetBody, response: null },
    saveKeySet,
  ),
  undocumented(`DELETE ${ORGANIZATION_V2}/jwks/:jwksName`, 'member', { response: null }, removeKeySet),
  undocumented(
    `POST ${ORGANIZATION_V2}/jwks-template`,
    'member',
    returns({ template: ClaimsTemplate }, { body: TemplateBody }),
    makeTemplate,
  ),
]

function getKeySets({ organization, plane }: Call): readonly KeySetRow[] {
  return plane.registry.keySets.rows.filter((row) => row.organization === organization.id)
}

async function saveKeySet(call: Call): Promise<void> {
  const name = call.param('jwksName')
  checkTokenName(name, 'key set')
  const { jwks_url: url } = call.body(KeySetBody)
  checkUrl(url)
  const { organization, plane } = call
  const id = compositeKey(organization.id, name)
  const existing = plane.registry.keySets.get(id)
  if (existing === undefined && getKeySets(call).length >= MAX_KEY_SETS)
    throw new ApiError(400, `an organization can have at most ${MAX_KEY_SETS} key sets`)
  call.commit(null, () => plane.registry.keySets.put({ id, organization: organization.id, name, url }))
  if (existing !== undefined && existing.url !== url) await closeStreams(call, existing)
}

async function removeKeySet(call: Call): Promise<void> {
  const name = call.param('jwksName')
  const row = call.plane.registry.keySets.get(compositeKey(call.organization.id, name))
  if (row === undefined) throw new ApiError(404, `could not find key set ${shorten(name)}`)
  call.commit(null, () => call.plane.registry.keySets.delete(row.id))
  await closeStreams(call, row)
}

/**
 * Closes all streams of the organization's databases, because it is unknown which were opened with tokens of the removed or
 * replaced key set.
 */
async function closeStreams(call: Call, { url }: KeySetRow): Promise<void> {
  const { externalTokens, registry } = call.plane
  // another organization may still trust the set
  if (!registry.keySets.rows.some((row) => row.url === url)) externalTokens.forget(url)
  await call.plane.databases.applyAll(call.databases(), { revoked: 'all' })
}

/** Checks the URL of a key set. Requires HTTPS, because otherwise anyone on the network path could replace the keys. @throws ApiError */
function checkUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : null
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname))
  if (text.length > MAX_URL_LENGTH)
    throw new ApiError(400, `jwks_url must have at most ${MAX_URL_LENGTH} characters`)
  if (!isSafe || url.username !== '' || url.password !== '')
    throw new ApiError(
      400,
      'jwks_url must be an https URL without credentials; http is allowed only on this machine',
    )
}

/** Returns the claims that an issuer's tokens must have. */
function makeTemplate(call: Call) {
  const { database, group, scope, permissions } = call.body(TemplateBody)
  if ((database == null) === (group == null)) throw new ApiError(400, 'specify either a database or a group')
  if (permissions != null && permissions.length > 0 && !call.plane.backend.hasTablePermissions)
    throw notSupported(`permissions are not supported by the back end "${call.plane.backend.kind}"`)
  const subject =
    database == null ? { gid: call.groupByName(group ?? '').id } : { id: call.databaseByName(database).id }
  const a = scope === 'read-only' ? 'ro' : 'rw'
  return { template: { a, ...subject, perm: permissions ?? [] } }
}
