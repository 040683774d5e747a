import { notSupported } from '../rejection.ts'
import { organizationWide, PUBLIC, type RouteAccess, scoped } from './access.ts'
import { DATABASE, GROUP, type Route, undocumented } from './route.ts'

const MEMBER = organizationWide('member')
const AWS_REASON = 'this server does not run in an AWS region'
const SEED_REASON = 'a database is seeded when it is created: POST the seed with its name and group'
const OAUTH_REASON =
  'OAuth is not supported by this server; create an API token with POST /v1/auth/api-tokens/{name}'

/** Routes of the service that this server does not support. They are rejected explicitly, so that no request is silently ignored. */
export const unsupportedRoutes: readonly Route[] = [
  unsupported('POST', `${DATABASE}/seed`, scoped('db:create'), SEED_REASON),
  unsupported('POST', `${GROUP}/aws/migration/start`, MEMBER, AWS_REASON),
  unsupported('POST', `${GROUP}/aws/migration/abort`, MEMBER, AWS_REASON),
  unsupported('POST', '/v1/oauth/authorize', PUBLIC, OAUTH_REASON),
  unsupported('POST', '/v1/oauth/token', PUBLIC, OAUTH_REASON),
]

function unsupported(method: Route['method'], path: string, access: RouteAccess, reason: string): Route {
  return undocumented(method, path, access, null, () => {
    throw notSupported(reason, 501)
  })
}
