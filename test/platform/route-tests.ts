import { existsSync, readFileSync } from 'node:fs'

/** A test, by its file from the repository's root and its title there. */
type TestName = readonly [file: string, title: string]

/** A title that is made of parts stands here up to the first of them. @returns what is wrong with it; null for nothing */
export function faultOfTest([file, title]: TestName): string | null {
  const url = new URL(`../../${file}`, import.meta.url)
  if (!existsSync(url)) return `${file} is not there`
  // as a source has it: quotes and backslashes would be written otherwise
  return readFileSync(url, 'utf8').includes(title) ? null : `${file} has no test "${title}"`
}

const ORGANIZATIONS = 'organizations.test.ts'
const DATABASES = 'databases.test.ts'
const TOKENS = 'tokens.test.ts'
const SHAPES: TestEntry = [
  'documented-routes.test.ts',
  'each documented route answers with its documented shape',
]
const SESSION: TestEntry = ['command-line.test.ts', 'a session, from login to destroy']
const COPY: TestEntry = [DATABASES, 'a copy has the rows of its source and goes its own way']
const DELETED: TestEntry = [
  DATABASES,
  'after a deletion the name is free, and nothing of the old database shows',
]
const CONFIGURED: TestEntry = [
  DATABASES,
  'blocks, size, addresses and protection are enforced, and come back',
]
const USAGE: TestEntry = [
  DATABASES,
  'rows read and written are counted, also those before a restart and of databases that are gone',
]
const DUMP: TestEntry = [DATABASES, 'what a dump makes, all of it']
const PAGES: TestEntry = [DATABASES, 'a list is given in pages of the wanted size']
const ROTATION: TestEntry = [
  TOKENS,
  'ends tokens, open streams with their transactions, and change streams at once',
]
const READ_ONLY: TestEntry = [TOKENS, 'a read-only one reads, one that has expired does nothing']
const GROUP_TOKEN: TestEntry = [TOKENS, "a group's is good for all its databases"]
const GROUP_GONE: TestEntry = [ORGANIZATIONS, 'a deleted one takes its databases and tokens along']
const TRANSFER: TestEntry = [ORGANIZATIONS, 'a transfer moves the databases with their rows']
const ARCHIVED: TestEntry = [ORGANIZATIONS, 'an archived one sleeps until it is unarchived']
const LOCATIONS: TestEntry = [ORGANIZATIONS, 'locations, name and protection can be changed']
const ROLES: TestEntry = [ORGANIZATIONS, 'a role is given, changed and taken, and with it what tokens may do']
const INVITES: TestEntry = [
  ORGANIZATIONS,
  'an invite waits for its address, is replaced by the next one, and needs the plan',
]
const ISSUERS: TestEntry = [
  'key-sets.test.ts',
  'databases accept the tokens of an issuer that the operator has named',
]
const ISSUER_REMOVED: TestEntry = [
  'key-sets.test.ts',
  'an issuer is trusted by the organization that has named it alone, and until it is removed',
]
const OTHERS_TOKENS: TestEntry = ['authorisation.test.ts', 'tokens of others: admins see and revoke all']
const MATRIX: TestEntry = ['authorisation.test.ts', 'each route, by each kind of token']
const ISOLATION: TestEntry = [ORGANIZATIONS, 'never reach each other through the platform API']

/** A test of this folder. */
type TestEntry = readonly [file: string, title: string]

const O = '/v1/organizations/{organizationSlug}'
const O2 = '/v2/organizations/{organizationSlug}'
const D = `${O}/databases/{databaseName}`
const G = `${O}/groups/{groupName}`

/** For each route a test that is about what it does; of routes that only answer, the one that looks at the answer. */
const TESTS: Readonly<Record<string, TestEntry>> = {
  [`GET ${O}/databases`]: PAGES,
  [`POST ${O}/databases`]: COPY,
  [`POST ${O}/databases/dumps`]: DUMP,
  [`GET ${D}`]: DELETED,
  [`POST ${D}/wakeup`]: ARCHIVED,
  [`DELETE ${D}`]: DELETED,
  [`GET ${D}/configuration`]: CONFIGURED,
  [`PATCH ${D}/configuration`]: CONFIGURED,
  [`POST ${D}/auth/tokens`]: READ_ONLY,
  [`POST ${D}/auth/rotate`]: ROTATION,
  [`POST ${G}/auth/tokens`]: GROUP_TOKEN,
  [`POST ${G}/auth/rotate`]: ROTATION,
  [`GET ${D}/usage`]: USAGE,
  [`GET ${D}/usage/queries`]: SESSION,
  [`GET ${O}/usage`]: USAGE,
  [`DELETE ${G}`]: GROUP_GONE,
  [`PATCH ${G}/configuration`]: LOCATIONS,
  [`POST ${G}/transfer`]: TRANSFER,
  [`POST ${G}/unarchive`]: ARCHIVED,
  [`POST ${G}/locations/{location}`]: LOCATIONS,
  [`DELETE ${G}/locations/{location}`]: LOCATIONS,
  [`GET ${G}/locations/{location}/wait`]: SESSION,
  [`POST ${G}/rename`]: LOCATIONS,
  [`GET ${G}/aws/migration/info`]: SESSION,
  [`GET ${O2}/locations`]: SESSION,
  'GET /v2/organizations': SESSION,
  'POST /v1/organizations': SESSION,
  [`DELETE ${O}`]: SESSION,
  [`POST ${O}/members`]: ROLES,
  [`PATCH ${O}/members/{username}`]: ROLES,
  [`DELETE ${O}/members/{username}`]: ROLES,
  [`GET ${O2}/invites`]: INVITES,
  [`POST ${O2}/invites`]: INVITES,
  [`DELETE ${O2}/invites/{email}`]: INVITES,
  [`GET ${O2}/jwks`]: ISSUERS,
  [`PUT ${O2}/jwks/{jwksName}`]: ISSUERS,
  [`DELETE ${O2}/jwks/{jwksName}`]: ISSUER_REMOVED,
  [`POST ${O2}/jwks-template`]: ISSUERS,
  [`GET ${O}/invites`]: SESSION,
  [`POST ${O}/invite`]: SESSION,
  [`DELETE ${O}/invites/{email}`]: SESSION,
  'POST /v1/auth/api-tokens/{tokenName}': OTHERS_TOKENS,
  'POST /v2/auth/api-tokens/{tokenName}': SESSION,
  'DELETE /v1/auth/api-tokens/{tokenName}': MATRIX,
  'POST /v1/auth/invalidate': SESSION,
  [`GET ${O}/api-tokens`]: OTHERS_TOKENS,
  [`DELETE ${O}/api-tokens/{tokenId}`]: OTHERS_TOKENS,
  [`GET ${O}/audit-logs`]: SESSION,
  'GET /v1/plans': SESSION,
  [`GET ${O}/subscription`]: SESSION,
  [`POST ${O}/subscription`]: SESSION,
  'POST /v1/organizations/stripe-customer': SESSION,
  'POST /v1/billing/portal': SESSION,
  'GET /v1/billing/payment-methods': SESSION,
  'GET /v1/current-user': SESSION,
  'GET /releases/latest': SESSION,
  [`GET ${O}`]: ISOLATION,
}

/** The test that is most about a route: one of its own; for others of the documents the walk over their shapes. */
export function testOfRoute(name: string, isDocumented: boolean): TestName {
  const [file, title] =
    TESTS[name] ??
    (isDocumented ? SHAPES : ['coverage.test.ts', 'each route answers as docs/platform.md says'])
  return [`test/platform/${file}`, title]
}

/** Routes that have one of their own. */
export const ROUTES_WITH_TESTS = Object.keys(TESTS)
