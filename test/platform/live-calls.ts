import {
  createPlatformClient,
  type PlatformClient,
  PlatformError,
  type PlatformFetch,
} from '@batonsql/core/platform'
import { PLATFORM_CALLS } from '../../packages/core/test-support/platform-calls.ts'
import { fill, NAMES } from './documented-routes.ts'
import type { Scene } from './platform-scene.ts'

const O = '/v1/organizations/{organizationSlug}'
const D = `${O}/databases/{databaseName}`
const G = `${O}/groups/{groupName}`

/** The same for the routes that have no documents. */
const VALUES: Readonly<Record<string, string>> = {
  ...NAMES,
  jwksName: 'keys',
  organizationId: 'local',
  databaseId: 'app',
  groupId: 'team',
}

/** What routes that take something away are given, so that others go on. */
const VICTIMS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  [`DELETE ${D}`]: { databaseName: 'doomed' },
  [`POST ${D}/transfer`]: { databaseName: 'copy' },
  [`DELETE ${G}`]: { groupName: 'doomed' },
  [`POST ${G}/transfer`]: { groupName: 'leaving' },
  [`POST ${G}/rename`]: { groupName: 'renamed' },
  [`DELETE ${O}`]: { organizationSlug: 'doomed' },
  [`DELETE ${O}/members/{username}`]: { username: 'leaver' },
  [`DELETE ${O}/invites/{email}`]: { email: 'dave@example.test' },
  'POST /v2/auth/api-tokens/{tokenName}': { tokenName: 'robot-2' },
}

/** Bodies that fit what is there; of other routes what the client's method sends. */
const BODIES: Readonly<Record<string, object>> = {
  [`POST ${O}/databases`]: { name: 'fresh', group: 'team' },
  [`PATCH ${D}/configuration`]: { size_limit: '10mb' },
  [`POST ${D}/auth/tokens`]: {},
  [`POST ${G}/auth/tokens`]: {},
  [`PATCH ${G}/configuration`]: { delete_protection: false },
  [`POST ${G}/transfer`]: { organization: 'elsewhere' },
  [`POST ${O}/members`]: { username: 'dora' },
  [`POST ${O}/invites`]: { email: 'erin@example.test', role: 'viewer' },
  [`POST ${O}/invite`]: { email: 'frank@example.test', role: 'viewer' },
  'POST /v1/auth/api-tokens/{tokenName}': { organization: 'local' },
  'POST /v2/auth/api-tokens/{tokenName}': { organization: 'local' },
}

/** What all routes need to have something to work on. */
export async function furnish(scene: Scene): Promise<void> {
  const { own, platform } = scene
  for (const username of ['bob', 'dora', 'leaver']) await platform.createUser({ username })
  for (const username of ['bob', 'leaver'])
    await scene.done('POST', `${own}/members`, { body: { username, role: 'member' } })
  for (const name of ['team', 'doomed', 'leaving', 'renamed'])
    await scene.done('POST', `${own}/groups`, { body: { name, location: 'local' } })
  for (const name of ['app', 'doomed', 'copy']) await scene.create(name, { group: 'team' })
  for (const name of ['elsewhere', 'doomed'])
    await scene.done('POST', '/v1/organizations', { body: { name } })
  for (const email of ['carol@example.test', 'dave@example.test'])
    await scene.done('POST', '/v2/organizations/local/invites', { body: { email } })
}

/** What came of a route: `yes`, or the status of a refusal. */
export type Outcome = string

/** A way to use each route: the client's method, or where it has none, a plain request. */
export class LiveCalls {
  readonly #scene: Scene
  #route = ''
  #status = 0

  constructor(scene: Scene) {
    this.#scene = scene
  }

  /** For each route that has one, the name of the client's method. */
  async methods(): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>()
    const platform = this.#client(() => Promise.resolve(new Response(null, { status: 418 })))
    for (const [name, call] of Object.entries(PLATFORM_CALLS)) {
      await call(platform).catch(() => {})
      found.set(this.#route, name)
    }
    return found
  }

  /** Uses a route, through the client's method if it has one. */
  async outcome(name: string, method: string | undefined): Promise<Outcome> {
    const { token } = this.#scene.platform
    if (method === undefined) {
      const [verb = '', path = ''] = name.split(' ')
      const body = BODIES[name]
      const { status } = await this.#scene.ask(verb, await this.#pathOf(name, path), {
        ...(body && { body }),
      })
      return status === 200 ? 'yes' : String(status)
    }
    const platform = this.#client(async (url, init) => {
      const { pathname, search } = new URL(url)
      const path = await this.#pathOf(name, decodeURIComponent(pathname))
      const body = BODIES[name]
      const headers = { ...init.headers, authorization: `Bearer ${token}` }
      const answer = await fetch(this.#scene.platform.url + path + search, {
        ...init,
        headers,
        ...(body && { body: JSON.stringify(body) }),
      })
      this.#status = answer.status
      return answer
    })
    try {
      await PLATFORM_CALLS[method]?.(platform)
    } catch (error) {
      // an answer that the client cannot read is no outcome
      if (!(error instanceof PlatformError) || error.status === null || error.status < 400) throw error
      return String(error.status)
    }
    return this.#status === 200 ? 'yes' : String(this.#status)
  }

  async #pathOf(name: string, pattern: string): Promise<string> {
    const tokenId = pattern.includes('{tokenId}') ? await this.#newTokenId() : ''
    return fill(pattern, { ...VALUES, ...VICTIMS[name], tokenId })
  }

  async #newTokenId(): Promise<string> {
    const body = { organization: 'local' }
    return (await this.#scene.done('POST', '/v1/auth/api-tokens/short-lived', { body })).id
  }

  #client(send: PlatformFetch): PlatformClient {
    return createPlatformClient({
      organization: '{organizationSlug}',
      token: 'replaced',
      baseUrl: 'http://127.0.0.1:1',
      maxRetries: 0,
      fetch: (url, init) => {
        this.#route = `${init.method} ${decodeURIComponent(new URL(url).pathname)}`
        return send(url, init)
      },
    })
  }
}

/** What ends things comes last, and what ends the token at the very end. */
export function inOrder(names: readonly string[]): readonly string[] {
  const rank = (name: string): number =>
    name === 'POST /v1/auth/invalidate' ? 2 : Number(name.startsWith('DELETE'))
  return [...names].sort((one, other) => rank(one) - rank(other))
}
