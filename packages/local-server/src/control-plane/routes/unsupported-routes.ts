import { notSupported } from '../refusal.ts'
import { ANY_TOKEN, organizationWide, PUBLIC, type RouteAccess, scoped } from './access.ts'
import { DATABASE, GROUP, type Route, undocumented } from './route.ts'

const MEMBER = organizationWide('member')
const V3 = 'the API /v3 is not supported by this server; use /v1'
const AWS = 'this server runs on no AWS region'
const SEED = 'a database is seeded when it is created: POST the seed with its name and group'
const INSTANCES = 'a database has its primary alone: instances are neither added nor removed'
const VERSION = 'databases have the version of the server'
const OAUTH =
  'OAuth is not supported by this server; an API token is made with POST /v1/auth/api-tokens/{name}'

const V3_DATABASES = '/v3/organizations/:organizationId/databases'
const V3_GROUPS = '/v3/organizations/:organizationId/groups'

/** What the service has and this server has not: it says so to callers that may ask, and nothing is accepted and ignored. */
export const absentRoutes: readonly Route[] = [
  absent('POST', `${DATABASE}/instances`, scoped('db:configure'), INSTANCES),
  absent('DELETE', `${DATABASE}/instances/:instanceName`, scoped('db:configure'), INSTANCES),
  absent('POST', `${DATABASE}/seed`, scoped('db:create'), SEED),
  absent('POST', `${DATABASE}/update`, scoped('db:configure'), VERSION),
  absent('POST', `${GROUP}/aws/migration/start`, MEMBER, AWS),
  absent('POST', `${GROUP}/aws/migration/abort`, MEMBER, AWS),
  absent('GET', V3_DATABASES, ANY_TOKEN, V3),
  absent('POST', V3_DATABASES, ANY_TOKEN, V3),
  absent('GET', `${V3_DATABASES}/:databaseId`, ANY_TOKEN, V3),
  absent('DELETE', `${V3_DATABASES}/:databaseId`, ANY_TOKEN, V3),
  absent('POST', `${V3_DATABASES}/:databaseId/auth/tokens`, ANY_TOKEN, V3),
  absent('GET', V3_GROUPS, ANY_TOKEN, V3),
  absent('GET', `${V3_GROUPS}/:groupId`, ANY_TOKEN, V3),
  absent('POST', `${V3_GROUPS}/:groupId/auth/tokens`, ANY_TOKEN, V3),
  absent('POST', '/v1/oauth/authorize', PUBLIC, OAUTH),
  absent('POST', '/v1/oauth/token', PUBLIC, OAUTH),
]

function absent(method: Route['method'], path: string, access: RouteAccess, reason: string): Route {
  return undocumented(method, path, access, () => {
    throw notSupported(reason, 501)
  })
}
