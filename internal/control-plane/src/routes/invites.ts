import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import type { InviteRow } from '../registry/rows.ts'
import { shorten } from '../rules/names.ts'
import { checkTeamFeatures } from '../rules/plans.ts'
import type { Call } from './call.ts'
import { Integer, Time } from './json-types.ts'
import { Organization } from './models.ts'
import { documented, ORGANIZATION, ORGANIZATION_V2, type Route, returns, undocumented } from './route.ts'
import { formatTime, organizationView, readRole } from './views.ts'

const EMAIL = /^[^\s@/]+@[^\s@/]+$/

const InviteBody = v.object({
  email: v.nullish(v.string()),
  username: v.nullish(v.string()),
  role: v.nullish(v.string()),
})
const Invite = v.object({ id: Integer, email: v.string(), role: v.string(), created_at: Time })
const Invited = v.object({ email: v.string(), role: v.string(), organization: v.string() })
const OldInvite = v.object({
  ID: Integer,
  CreatedAt: Time,
  UpdatedAt: Time,
  DeletedAt: v.null(),
  Role: v.string(),
  Email: v.string(),
  OrganizationID: Integer,
  Token: v.string(),
  Organization,
  Accepted: v.boolean(),
})

export const inviteRoutes: readonly Route[] = [
  documented(`GET ${ORGANIZATION_V2}/invites`, 'admin', returns({ invites: v.array(Invite) }), (call) => ({
    invites: listInvites(call).map(({ id, email, role, createdAt }) => ({
      id: Number(id),
      email,
      role,
      created_at: formatTime(createdAt),
    })),
  })),
  documented(
    `POST ${ORGANIZATION_V2}/invites`,
    'admin',
    returns({ invited: Invited }, { body: InviteBody }),
    (call) => {
      const { email, role } = invite(call)
      return { invited: { email, role, organization: call.organization.slug } }
    },
  ),
  documented(`DELETE ${ORGANIZATION_V2}/invites/:email`, 'admin', { response: null }, removeInvite),
  undocumented(`GET ${ORGANIZATION}/invites`, 'admin', returns({ invites: v.array(OldInvite) }), (call) => ({
    invites: listInvites(call).map((row) => oldInviteView(call, row)),
  })),
  // the vendor's CLI uses `invite`
  ...['invites', 'invite'].map((name) =>
    undocumented(
      `POST ${ORGANIZATION}/${name}`,
      'admin',
      returns({ invited: OldInvite }, { body: InviteBody }),
      (call) => ({
        invited: oldInviteView(call, invite(call)),
      }),
    ),
  ),
  undocumented(`DELETE ${ORGANIZATION}/invites/:email`, 'admin', { response: null }, removeInvite),
]

/** Returns the pending invites of the organization. @throws ApiError 402 if its plan does not include invites */
function listInvites(call: Call): readonly InviteRow[] {
  checkTeamFeatures(call.organization.plan, 'invites are')
  return call.plane.registry.invites.rows.filter(({ organization }) => organization === call.organization.id)
}

/** Creates an invite, replacing one for the same address. */
function invite(call: Call): InviteRow {
  const body = call.body(InviteBody)
  const { registry } = call.plane
  if ((body.email == null) === (body.username == null))
    throw new ApiError(400, 'an invite needs exactly one of: email, username')
  const email = body.email ?? registry.findUser(body.username ?? '')?.email
  if (email === undefined) throw new ApiError(404, `could not find user ${shorten(body.username ?? '')}`)
  if (!EMAIL.test(email)) throw new ApiError(400, 'invalid email')
  const role = readRole(body.role)
  const invites = listInvites(call)
  const pendingInvite = invites.find((row) => row.email === email)
  const lastId = Math.max(0, ...registry.invites.rows.map(({ id }) => Number(id)))
  const id = String(lastId + 1)
  const row = { id, organization: call.organization.id, email, role, createdAt: Date.now() }
  call.commit(null, () => {
    if (pendingInvite !== undefined) registry.invites.delete(pendingInvite.id)
    registry.invites.put(row)
  })
  return row
}

function removeInvite(call: Call): void {
  const pendingInvite = listInvites(call).find(({ email }) => email === call.param('email'))
  if (pendingInvite === undefined) throw new ApiError(404, 'invite not found')
  call.commit(null, () => call.plane.registry.invites.delete(pendingInvite.id))
}

function oldInviteView({ organization }: Call, { id, email, role, createdAt }: InviteRow) {
  const time = formatTime(createdAt)
  return {
    ID: Number(id),
    CreatedAt: time,
    UpdatedAt: time,
    DeletedAt: null,
    Role: role,
    Email: email,
    OrganizationID: 0,
    Token: '',
    Organization: organizationView(organization),
    Accepted: false,
  }
}
