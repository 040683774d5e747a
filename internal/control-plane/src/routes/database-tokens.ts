import { newKeyPair } from '@batonsql/server-common/auth'
import * as v from 'valibot'
import { ApiError, notSupported } from '../api-error.ts'
import type { DatabaseRow } from '../registry/rows.ts'
import { parseExpiration } from '../rules/expiration.ts'
import { mintDatabaseToken, mintGroupToken, type TokenRequest } from '../tokens/database-tokens.ts'
import type { Call } from './call.ts'
import { TablePermissions } from './json-types.ts'
import { DATABASE, documented, GROUP, type Route, returns } from './route.ts'

const TokenBody = v.object({
  permissions: v.nullish(
    v.object({ read_attach: v.nullish(v.object({ databases: v.nullish(v.array(v.string())) })) }),
  ),
  fine_grained_permissions: v.nullish(TablePermissions),
})

export const MINT = returns({ jwt: v.string() }, { query: ['expiration', 'authorization'], body: TokenBody })

export const databaseTokenRoutes: readonly Route[] = [
  documented(`POST ${DATABASE}/auth/tokens`, 'db:mint-token', MINT, mintForDatabase),
  documented(`POST ${DATABASE}/auth/rotate`, 'db:rotate-creds', { response: null }, rotateDatabase),
  documented(`POST ${GROUP}/auth/tokens`, 'group:mint-token', MINT, mintForGroup),
  documented(`POST ${GROUP}/auth/rotate`, 'group:rotate-creds', { response: null }, rotateGroup),
]

export function mintForDatabase(call: Call) {
  const row = call.database()
  const request = readTokenRequest(call, row.group)
  const jwt = mintDatabaseToken(row, request)
  auditTokenCreation(call, 'database', row.name)
  return { jwt }
}

export function mintForGroup(call: Call) {
  const group = call.group()
  const databases = call.databases().filter((row) => row.group === group.id)
  const jwt = mintGroupToken(group, databases, readTokenRequest(call, group.id))
  auditTokenCreation(call, 'group', group.name)
  return { jwt }
}

function auditTokenCreation(call: Call, kind: 'database' | 'group', name: string): void {
  const code = kind === 'database' ? 'db-token-create' : 'group-token-create'
  call.commit({ code, message: `created token for ${kind} ${name}`, data: { [kind]: name } }, () => {})
}

function readTokenRequest(call: Call, group: string): TokenRequest {
  const body = call.body(TokenBody)
  const { backend } = call.plane
  const authorization = call.query('authorization') ?? 'full-access'
  if (authorization !== 'full-access' && authorization !== 'read-only')
    throw new ApiError(400, 'invalid authorization: expected full-access or read-only')
  const tables = (body.fine_grained_permissions ?? []).map(({ t, a }) => ({ t: t ?? null, a }))
  if (tables.length > 0 && !backend.hasTablePermissions)
    throw notSupported(`fine_grained_permissions are not supported by the back end "${backend.kind}"`)
  const names = body.permissions?.read_attach?.databases ?? []
  return {
    authorization,
    tables,
    expiresInSeconds: parseExpiration(call.query('expiration') ?? 'never'),
    attach: names.map((name) => findAttachable(call, name, group)),
  }
}

function findAttachable(call: Call, name: string, group: string): DatabaseRow {
  const row = call.databaseByName(name)
  if (row.group !== group)
    throw new ApiError(400, `database ${name} is in another group and cannot be attached`)
  return row
}

async function rotateDatabase(call: Call): Promise<void> {
  const row = call.database()
  const { databases, registry } = call.plane
  call.commit(null, () => registry.databases.put({ ...row, key: newKeyPair() }))
  await databases.apply(row.id, { revoked: 'all' })
}

async function rotateGroup(call: Call): Promise<void> {
  const group = call.group()
  const { databases, registry } = call.plane
  // also invalidates tokens of individual databases
  const rows = call.databases().filter((row) => row.group === group.id)
  call.commit(null, () => {
    registry.groups.put({ ...group, key: newKeyPair() })
    for (const row of rows) registry.databases.put({ ...row, key: newKeyPair() })
  })
  await databases.applyAll(rows, { revoked: 'all' })
}
