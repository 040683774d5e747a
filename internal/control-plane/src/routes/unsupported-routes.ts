import { notSupported } from '../api-error.ts'
import { type Access, OWN_USER, PUBLIC } from './access.ts'
import { DATABASE, type Endpoint, GROUP, ORGANIZATION, type Route, undocumented } from './route.ts'

const BILLING_REASON = 'this server bills nothing: organizations need no customer and no payment method'
const AWS_REASON = 'this server does not run in an AWS region'
const SEED_REASON = 'a database is seeded when it is created: POST the seed with its name and group'
const OAUTH_REASON =
  'OAuth is not supported by this server; create an API token with POST /v1/auth/api-tokens/{name}'

/** Routes of the service that this server does not support. They are rejected explicitly, so that no request is silently ignored. */
export const unsupportedRoutes: readonly Route[] = [
  unsupported(`POST ${DATABASE}/seed`, 'db:create', SEED_REASON),
  unsupported(`GET ${GROUP}/aws/migration/info`, 'viewer', AWS_REASON),
  unsupported(`POST ${GROUP}/aws/migration/start`, 'member', AWS_REASON),
  unsupported(`POST ${GROUP}/aws/migration/abort`, 'member', AWS_REASON),
  unsupported('POST /v1/organizations/stripe-customer', OWN_USER, BILLING_REASON),
  unsupported('POST /v1/billing/portal', OWN_USER, BILLING_REASON),
  unsupported('GET /v1/billing/payment-methods', OWN_USER, BILLING_REASON),
  unsupported(`POST ${ORGANIZATION}/billing/portal`, 'admin', BILLING_REASON),
  unsupported(`GET ${ORGANIZATION}/billing/payment-methods`, 'viewer', BILLING_REASON),
  unsupported(`GET ${ORGANIZATION}/billing/customer`, 'viewer', BILLING_REASON),
  unsupported(`PUT ${ORGANIZATION}/billing/customer`, 'admin', BILLING_REASON),
  unsupported('POST /v1/oauth/authorize', PUBLIC, OAUTH_REASON),
  unsupported('POST /v1/oauth/token', PUBLIC, OAUTH_REASON),
]

function unsupported(endpoint: Endpoint, access: Access, reason: string): Route {
  return undocumented(endpoint, access, null, () => {
    throw notSupported(reason, 501)
  })
}
