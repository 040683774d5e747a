import * as v from 'valibot'
import { OWN_USER } from './access.ts'
import type { Call } from './call.ts'
import { User } from './models.ts'
import { documented, open, type Route, returns, undocumented } from './route.ts'

const SHOW = returns({ user: User })

export const userRoutes: readonly Route[] = [
  documented('GET /v1/user', OWN_USER, SHOW, showUser),
  undocumented('GET /v1/current-user', OWN_USER, SHOW, showUser),
  open('/releases/latest', v.object({ latest: v.string() }), ({ plane }) => ({
    latest: `v${plane.version}`,
  })),
]

function showUser({ caller: { user }, plane: { registry } }: Call) {
  const member = registry.members.rows.find((row) => row.user === user.id && row.role === 'owner')
  const organization = registry.organizations.get(member?.organization ?? '')
  return {
    user: {
      username: user.username,
      name: user.name,
      email: user.email,
      avatarUrl: '',
      plan: organization?.plan ?? 'starter',
      mfa: false,
      has_pending_invites: registry.invites.rows.some(({ email }) => email === user.email),
    },
  }
}
