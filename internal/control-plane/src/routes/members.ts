import * as v from 'valibot'
import { ApiError } from '../api-error.ts'
import { newMember } from '../registry/new-rows.ts'
import type { MemberRow, UserRow } from '../registry/rows.ts'
import { shorten } from '../rules/names.ts'
import type { Call } from './call.ts'
import { Member } from './models.ts'
import { documented, ORGANIZATION, type Route, returns } from './route.ts'
import { readRole } from './views.ts'

const MEMBER = `${ORGANIZATION}/members/:username`

const NewMemberBody = v.object({ username: v.string(), role: v.nullish(v.string()) })
const RoleBody = v.object({ role: v.string() })
const ADD = returns({ member: v.string(), role: v.string() }, { body: NewMemberBody })

export const memberRoutes: readonly Route[] = [
  documented(`GET ${ORGANIZATION}/members`, 'admin', returns({ members: v.array(Member) }), listMembers),
  documented(`POST ${ORGANIZATION}/members`, 'admin', ADD, addMember),
  documented(`GET ${MEMBER}`, 'viewer', returns({ member: Member }), (call) => {
    const { user, member } = findMember(call, 'could not find member')
    return { member: memberView(user, member) }
  }),
  // `updateMember` requires admin or owner, with the service's own message
  documented(`PATCH ${MEMBER}`, 'viewer', returns({ member: Member }, { body: RoleBody }), updateMember),
  documented(`DELETE ${MEMBER}`, 'admin', returns({ member: v.string() }), removeMember),
]

function memberView({ username, email }: UserRow, { role }: MemberRow) {
  return { username, role, email }
}

function listMembers({ plane: { registry }, organization }: Call) {
  const rows = registry.members.rows.filter((member) => member.organization === organization.id)
  const members = rows.flatMap((member) => {
    const user = registry.users.get(member.user)
    return user === undefined ? [] : [memberView(user, member)]
  })
  return { members }
}

function addMember(call: Call) {
  const { organization, plane } = call
  const { registry } = plane
  const body = call.body(NewMemberBody)
  const role = readRole(body.role)
  const user = registry.findUser(body.username)
  if (user === undefined) throw new ApiError(404, `could not find user ${shorten(body.username)}`)
  if (registry.findMembership(organization.id, user.id) !== undefined)
    throw new ApiError(409, `user ${user.username} is already a member of organization ${organization.slug}`)
  const data = { username: user.username, role }
  call.commit({ code: 'org-member-add', message: `added ${user.username} as ${role}`, data }, () =>
    registry.members.put(newMember(organization.id, user.id, role)),
  )
  return { member: user.username, role }
}

function updateMember(call: Call) {
  if (call.role !== 'admin' && call.role !== 'owner')
    throw new ApiError(403, 'updating member roles is only allowed for admin or owner')
  const { role: requestedRole } = call.body(RoleBody)
  const role = readRole(requestedRole)
  const { user, member } = findMember(call, `could not find user ${shorten(call.param('username'))}`)
  if (member.role === 'owner') throw new ApiError(400, 'the role of the owner cannot be changed')
  const updatedMember = { ...member, role }
  call.commit(null, () => call.plane.registry.members.put(updatedMember))
  return { member: memberView(user, updatedMember) }
}

/** Removes a member and the member's tokens for the organization. */
function removeMember(call: Call) {
  const { organization, plane } = call
  const { registry } = plane
  const notFound = `user ${shorten(call.param('username'))} is not a member of org ${organization.slug}`
  const { user, member } = findMember(call, notFound)
  if (member.role === 'owner') throw new ApiError(400, 'the owner cannot be removed')
  // an admin who leaves; the route is closed to other members
  const isSelf = user.id === call.caller.user.id
  const code = isSelf ? 'org-member-leave' : 'org-member-rm'
  const data = { username: user.username }
  call.commit({ code, message: `removed ${user.username}`, data }, () => {
    for (const token of registry.apiTokens.rows) {
      if (token.user === user.id && token.organization === organization.id)
        registry.apiTokens.delete(token.id)
    }
    registry.members.delete(member.id)
  })
  return { member: user.username }
}

function findMember(call: Call, notFound: string): Membership {
  const { organization, plane } = call
  const { registry } = plane
  const user = registry.findUser(call.param('username'))
  const member = user === undefined ? undefined : registry.findMembership(organization.id, user.id)
  if (user === undefined || member === undefined) throw new ApiError(404, notFound)
  return { user, member }
}

interface Membership {
  readonly user: UserRow
  readonly member: MemberRow
}
