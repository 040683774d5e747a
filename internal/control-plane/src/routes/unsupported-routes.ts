import { notSupported } from '../refusal.ts'
import { ANY_TOKEN, organizationWide, PUBLIC, type RouteAccess, scoped } from './access.ts'
import { DATABASE, GROUP, type Route, undocumented } from './route.ts'

const MEMBER = organizationWide('member')
const V3 = 'the API /v3 is not supported by this server; use /v1'
const AWS = 'this server does not run in an AWS region'
const SEED = 'a database is seeded when it is created: POST the seed with its name and group'
const VERSION = 'all databases have the version of the server'
const OAUTH =
  'OAuth is not supported by this server; create an API token with POST /v1/auth/api-tokens/{name}'

const V3_DATABASES = '/v3/organizations/:organizationId/databases'
const V3_GROUPS = '/v3/organizations/:organizationId/groups'

/** Routes of the service that this server lacks. They are rejected explicitly, so that no request is silently ignored. */
export const unsupportedRoutes: readonly Route[] = [
  unsupported('POST', `${DATABASE}/seed`, scoped('db:create'), SEED),
  unsupported('POST', `${DATABASE}/update`, scoped('db:configure'), VERSION),
  unsupported('POST', `${GROUP}/aws/migration/start`, MEMBER, AWS),
  unsupported('POST', `${GROUP}/aws/migration/abort`, MEMBER, AWS),
  unsupported('GET', V3_DATABASES, ANY_TOKEN, V3),
  unsupported('POST', V3_DATABASES, ANY_TOKEN, V3),
  unsupported('GET', `${V3_DATABASES}/:databaseId`, ANY_TOKEN, V3),
  unsupported('DELETE', `${V3_DATABASES}/:databaseId`, ANY_TOKEN, V3),
  unsupported('POST', `${V3_DATABASES}/:databaseId/auth/tokens`, ANY_TOKEN, V3),
  unsupported('GET', V3_GROUPS, ANY_TOKEN, V3),
  unsupported('GET', `${V3_GROUPS}/:groupId`, ANY_TOKEN, V3),
  unsupported('POST', `${V3_GROUPS}/:groupId/auth/tokens`, ANY_TOKEN, V3),
  unsupported('POST', '/v1/oauth/authorize', PUBLIC, OAUTH),
  unsupported('POST', '/v1/oauth/token', PUBLIC, OAUTH),
]

function unsupported(method: Route['method'], path: string, access: RouteAccess, reason: string): Route {
  return undocumented(method, path, access, null, () => {
    throw notSupported(reason, 501)
  })
}
