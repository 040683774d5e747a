import {
  createPlatformClient,
  type PlatformClient,
  PlatformError,
  type PlatformFetch,
} from '@batonsql/platform'
import { PLATFORM_CALLS } from '../../packages/platform/test-support/platform-calls.ts'
import { fill, PATH_PARAMETERS } from './documented-routes.ts'
import type { Harness } from './platform-harness.ts'

const ORGANIZATION = '/v1/organizations/{organizationSlug}'
const ORGANIZATION_V2 = '/v2/organizations/{organizationSlug}'
const ORGANIZATION_V3 = '/v3/organizations/{organizationId}'
const DATABASE = `${ORGANIZATION}/databases/{databaseName}`
const GROUP = `${ORGANIZATION}/groups/{groupName}`

/** Values for the parameters in paths, including those of undocumented routes. */
const VALUES: Readonly<Record<string, string>> = {
  ...PATH_PARAMETERS,
  jwksName: 'keys',
  snapshotName: 'before',
}

/** Separate resources for the routes that delete something or need a certain one, so that other routes are not affected. */
const SEPARATE_RESOURCES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  [`DELETE ${DATABASE}`]: { databaseName: 'doomed' },
  [`POST ${DATABASE}/transfer`]: { databaseName: 'copy' },
  [`DELETE ${GROUP}`]: { groupName: 'doomed' },
  [`GET ${GROUP}/locations/{location}/wait`]: { location: 'local' },
  [`DELETE ${DATABASE}/instances/{instanceName}`]: { instanceName: 'lhr' },
  [`POST ${GROUP}/transfer`]: { groupName: 'leaving' },
  [`POST ${GROUP}/rename`]: { groupName: 'renamed' },
  [`DELETE ${ORGANIZATION}`]: { organizationSlug: 'doomed' },
  [`DELETE ${ORGANIZATION}/members/{username}`]: { username: 'leaver' },
  [`DELETE ${ORGANIZATION}/invites/{email}`]: { email: 'dave@example.test' },
  'POST /v2/auth/api-tokens/{tokenName}': { tokenName: 'robot-2' },
}

const dump = new FormData()
dump.append('file', new Blob(['select 1;']))

/** Bodies that refer to existing resources. Other routes receive the body that the client's method sends. */
const BODIES: Readonly<Record<string, object>> = {
  [`POST ${ORGANIZATION}/databases`]: { name: 'fresh', group: 'team' },
  [`PATCH ${DATABASE}/configuration`]: { size_limit: '10mb' },
  [`POST ${ORGANIZATION_V3}/databases`]: { name: 'fresh-copy', seed: { type: 'database', value: 'app' } },
  [`POST ${DATABASE}/auth/tokens`]: {},
  [`POST ${GROUP}/auth/tokens`]: {},
  [`PATCH ${GROUP}/configuration`]: { delete_protection: false },
  [`POST ${GROUP}/transfer`]: { organization: 'elsewhere' },
  [`POST ${ORGANIZATION}/members`]: { username: 'dora' },
  [`POST ${ORGANIZATION}/invites`]: { email: 'erin@example.test', role: 'viewer' },
  [`POST ${ORGANIZATION}/invite`]: { email: 'frank@example.test', role: 'viewer' },
  [`POST ${ORGANIZATION}/databases/dumps`]: dump,
  [`POST ${DATABASE}/instances`]: { location: 'lhr' },
  [`POST ${DATABASE}/transfer`]: { org: 'local', group: 'default' },
  [`POST ${GROUP}/rename`]: { name: 'new' },
  [`POST ${ORGANIZATION}/subscription`]: { plan: 'scaler', timeline: 'yearly', overages: true },
  [`PUT ${ORGANIZATION_V2}/jwks/{jwksName}`]: { jwks_url: 'https://issuer.test/jwks.json' },
  [`POST ${ORGANIZATION_V2}/jwks-template`]: { database: 'app', scope: 'read-only' },
  'POST /v1/organizations': { name: 'n' },
  'POST /v1/auth/api-tokens/{tokenName}': { organization: 'local' },
  'POST /v2/auth/api-tokens/{tokenName}': { organization: 'local' },
}

/** Creates the resources that the routes need. */
export async function populate(harness: Harness): Promise<void> {
  const { platform } = harness
  for (const username of ['bob', 'dora', 'leaver']) await platform.createUser({ username })
  for (const username of ['bob', 'leaver'])
    await harness.requestOk('POST', 'members', { body: { username, role: 'member' } })
  for (const name of ['team', 'doomed', 'leaving', 'renamed']) await harness.createGroup(name)
  for (const name of ['app', 'doomed', 'doomed-by-id', 'copy'])
    await harness.createDatabase(name, { group: 'team' })
  for (const name of ['elsewhere', 'doomed'])
    await harness.requestOk('POST', '/v1/organizations', { body: { name } })
  for (const email of ['carol@example.test', 'dave@example.test'])
    await harness.requestOk('POST', '/v2/organizations/local/invites', { body: { email } })
}

/** The outcome of a route: `yes`, or the status of the rejection. */
export type Outcome = string

/** Calls each route with the client's method, or with `request` if there is none. */
export class LiveCalls {
  readonly #harness: Harness
  #route = ''

  constructor(harness: Harness) {
    this.#harness = harness
  }

  /** Returns the name of the client's method by route, for routes that have one. */
  async findMethods(): Promise<ReadonlyMap<string, string>> {
    const names = new Map<string, string>()
    const platform = this.#client(() => Promise.resolve(new Response(null, { status: 418 })))
    for (const [name, call] of Object.entries(PLATFORM_CALLS)) {
      await call(platform).catch(() => {})
      names.set(this.#route, name)
    }
    return names
  }

  /** The bodies of successful responses by route; undefined for an empty one. */
  readonly bodies = new Map<string, unknown>()

  /** Calls a route, with the client's method if there is one. */
  async callRoute(name: string, method: string | undefined): Promise<Outcome> {
    let status = 0
    const body = BODIES[name]
    const platform = this.#client(async (url, init) => {
      const { origin, pathname, search } = new URL(url)
      const path = await this.#pathOf(name, decodeURIComponent(pathname))
      const response = await fetch(origin + path + search, {
        ...init,
        ...(method !== undefined && body && { body: JSON.stringify(body) }),
      })
      status = response.status
      const text = response.ok ? await response.clone().text() : ''
      if (response.ok) this.bodies.set(name, text === '' ? undefined : JSON.parse(text))
      return response
    })
    try {
      const [verb, path] = name.split(' ') as ['GET', string]
      if (method !== undefined) await PLATFORM_CALLS[method]?.(platform)
      else await platform.request(verb, path.replaceAll('{', '%7B').replaceAll('}', '%7D'), { body })
    } catch (error) {
      // a response that the client cannot read is not an outcome
      if (!(error instanceof PlatformError) || error.status === null || error.status < 400) throw error
      return String(error.status)
    }
    return status === 200 ? 'yes' : String(status)
  }

  async #pathOf(name: string, pattern: string): Promise<string> {
    const tokenId = pattern.includes('{tokenId}') ? await this.#newTokenId() : ''
    const ids = pattern.startsWith('/v3/') ? await this.#ids(name) : {}
    return fill(pattern, { ...VALUES, ...SEPARATE_RESOURCES[name], ...ids, tokenId })
  }

  async #ids(name: string): Promise<Readonly<Record<string, string>>> {
    const harness = this.#harness
    const { groups } = await harness.requestOk('GET', 'groups')
    const isTeam = ({ name: group }: { readonly name: string }): boolean => group === 'team'
    const database = name.startsWith('DELETE') ? 'doomed-by-id' : 'app'
    return {
      organizationId: await harness.organizationId(),
      groupId: groups.find(isTeam).uuid,
      databaseId: (await harness.requestOk('GET', `databases/${database}`)).database.DbId,
    }
  }

  async #newTokenId(): Promise<string> {
    const body = { organization: 'local' }
    return (await this.#harness.requestOk('POST', '/v1/auth/api-tokens/short-lived', { body })).id
  }

  #client(send: PlatformFetch): PlatformClient {
    return createPlatformClient({
      organization: '{organizationSlug}',
      token: this.#harness.platform.token,
      url: this.#harness.platform.url,
      maxRetries: 0,
      fetch: (url, init) => {
        this.#route = `${init.method} ${decodeURIComponent(new URL(url).pathname)}`
        return send(url, init)
      },
    })
  }
}

/** Sorts routes so that deletions come last, followed only by the revocation of the token. */
export function sortDeletionsLast(names: readonly string[]): readonly string[] {
  const rank = (name: string): number =>
    name === 'POST /v1/auth/invalidate' ? 2 : Number(name.startsWith('DELETE'))
  return [...names].sort((first, second) => rank(first) - rank(second))
}
