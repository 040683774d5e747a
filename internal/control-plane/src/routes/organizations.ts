import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import { newMember, newOrganization } from '../registry/new-rows.ts'
import type { OrganizationRow } from '../registry/rows.ts'
import { toSlug } from '../rules/names.ts'
import { ANY_TOKEN, OWN_USER } from './access.ts'
import type { Call } from './call.ts'
import { Organization } from './models.ts'
import { documented, ORGANIZATION, type Route, returns, undocumented } from './route.ts'
import { organizationView } from './views.ts'

const NewOrganizationBody = v.object({ name: v.string() })
const OrganizationBody = v.strictObject({
  overages: v.nullish(v.boolean()),
  require_mfa: v.nullish(v.boolean()),
})
const ORGANIZATION_RESPONSE = returns({ organization: Organization })
const CREATE = returns({ org: Organization }, { query: ['dry_run'], body: NewOrganizationBody })

export const organizationRoutes: readonly Route[] = [
  // includes only organizations that the token can access
  documented('GET /v1/organizations', ANY_TOKEN, { response: v.array(Organization) }, (call) =>
    getAccessibleOrganizations(call).map(organizationView),
  ),
  undocumented(
    'GET /v2/organizations',
    ANY_TOKEN,
    returns({ organizations: v.array(Organization) }),
    (call) => ({
      organizations: getAccessibleOrganizations(call).map(organizationView),
    }),
  ),
  undocumented('POST /v1/organizations', OWN_USER, CREATE, createOrganization),
  documented(`GET ${ORGANIZATION}`, 'viewer', ORGANIZATION_RESPONSE, (call) => ({
    organization: organizationView(call.organization),
  })),
  documented(
    `PATCH ${ORGANIZATION}`,
    'member',
    { ...ORGANIZATION_RESPONSE, body: OrganizationBody },
    updateOrganization,
  ),
  undocumented(`DELETE ${ORGANIZATION}`, 'owner', { response: null }, deleteOrganization),
]

function getAccessibleOrganizations({
  plane: { registry },
  caller: { user, token },
}: Call): readonly OrganizationRow[] {
  return registry.organizations.rows.filter(
    ({ id }) =>
      registry.findMembership(id, user.id) !== undefined &&
      (token.organization === null || token.organization === id),
  )
}

function createOrganization(call: Call) {
  const { registry } = call.plane
  const { name } = call.body(NewOrganizationBody)
  const slug = toSlug(name)
  if (registry.findOrganization(slug) !== undefined)
    throw new ApiError(409, `organization ${slug} already exists`)
  // the CLI expects a slug derived from the name
  const organization = newOrganization(slug, name, 'team', 'scaler')
  if (call.query('dry_run') !== 'true') {
    const owner = newMember(organization.id, call.caller.user.id, 'owner' as const)
    const data = { organization: slug }
    const audit = { code: 'org-create', message: `created organization ${slug}`, data }
    const change = (): void => {
      registry.organizations.put(organization)
      registry.members.put(owner)
    }
    call.commit(audit, change, organization.id)
  }
  return { org: organizationView(organization) }
}

function updateOrganization(call: Call) {
  const { organization, plane } = call
  const body = call.body(OrganizationBody)
  const updatedOrganization = {
    ...organization,
    overages: body.overages ?? organization.overages,
    // stored but not enforced, because this server does not support two-factor authentication
    requireMfa: body.require_mfa ?? organization.requireMfa,
  }
  const data = { overages: updatedOrganization.overages }
  const audit = { code: 'org-set-overages', message: 'set overages', data }
  call.commit(updatedOrganization.overages === organization.overages ? null : audit, () =>
    plane.registry.organizations.put(updatedOrganization),
  )
  return { organization: organizationView(updatedOrganization) }
}

function deleteOrganization(call: Call): void {
  const { organization, plane } = call
  const { registry } = plane
  if (organization.type === 'personal') throw new ApiError(400, 'a personal organization cannot be deleted')
  if (call.groups().length > 0) throw new ApiError(400, 'delete the groups of the organization first')
  const belongsToOrganization = (row: { readonly organization: string | null }): boolean =>
    row.organization === organization.id
  call.commit(null, () => {
    for (const { id } of registry.apiTokens.rows.filter(belongsToOrganization)) registry.apiTokens.delete(id)
    for (const { id } of registry.keySets.rows.filter(belongsToOrganization)) registry.keySets.delete(id)
    for (const { id } of registry.members.rows.filter(belongsToOrganization)) registry.members.delete(id)
    for (const { id } of registry.invites.rows.filter(belongsToOrganization)) registry.invites.delete(id)
    registry.organizations.delete(organization.id)
  })
}
