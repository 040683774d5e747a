import { checkOptions } from '../../base/check-options.ts'
import type { Group, GroupConfiguration } from '../models.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { isAlreadyExists, isMissing, MismatchError, PlatformError } from '../platform-errors.ts'
import { CALL, type Deleted, type PlatformHttp, REMOVE, type RemoveOptions } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import type { DatabaseToken } from '../platform-token.ts'
import { bodyOf } from '../view.ts'
import { CREATE_TOKEN, type CreateTokenOptions, mintRoute } from './token-options.ts'

export interface NewGroup {
  readonly name: string
  /** Code of a location: see `locations.list()`. */
  readonly location: string
  /** SQLite extensions that its databases load. */
  readonly extensions?: 'all' | readonly string[] | undefined
}

const NEW_GROUP = { name: 'string', location: 'string', extensions: "'all' or object" }
const CONFIGURATION = { deleteProtection: 'boolean' }

/** Groups of the organization. Those that take a name throw a NotFoundError when there is none of that name. */
export class Groups {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  list(options: PlatformCallOptions = {}): PlatformCall<Group[]> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/groups` },
      options,
      (answer) => answer.list<Group>('groups'),
    )
  }

  /**
   * Makes a group. Never sent twice when it may have arrived; see `ensure`.
   * @throws ConflictError when the name is taken (`isAlreadyExists`)
   */
  create(group: NewGroup, options: PlatformCallOptions = {}): PlatformCall<Group> {
    checkOptions(group, NEW_GROUP)
    const http = this.#http
    return http.call(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/groups`,
        body: bodyOf(group),
      },
      options,
      readGroup,
    )
  }

  /**
   * Makes sure that there is a group of this name with its primary in that location. May be repeated, also after an answer
   * that was lost.
   * @returns `created`: whether it was made by this call; also true when that answer was lost and it is there now
   * @throws MismatchError when its primary is elsewhere
   */
  async ensure(
    group: NewGroup,
    options: PlatformCallOptions = {},
  ): Promise<{ readonly created: boolean; readonly group: Group }> {
    checkOptions(group, NEW_GROUP)
    const there = await this.#find(group.name, options)
    if (there) return { created: false, group: this.#checkIsAsAsked(there, group) }
    try {
      return { created: true, group: await this.create(group, options) }
    } catch (error) {
      const isTaken = isAlreadyExists(error)
      if (!isTaken && !(error instanceof PlatformError && error.outcome === 'unknown')) throw error
      const found = options.signal?.aborted ? null : await this.#find(group.name, options)
      if (!found) throw error
      return { created: !isTaken, group: this.#checkIsAsAsked(found, group) }
    }
  }

  get(name: string, options: PlatformCallOptions = {}): PlatformCall<Group> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/groups/${name}` },
      options,
      readGroup,
    )
  }

  /** Deletes a group with all of its databases and API tokens. */
  delete(name: string, options: RemoveOptions = {}): PlatformCall<Deleted> {
    checkOptions(options, REMOVE)
    const http = this.#http
    return http.remove(
      { method: 'DELETE', path: path`/v1/organizations/${http.organization}/groups/${name}` },
      options,
    )
  }

  getConfiguration(name: string, options: PlatformCallOptions = {}): PlatformCall<GroupConfiguration> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/groups/${name}/configuration` },
      options,
      (answer) => answer.whole<GroupConfiguration>(),
    )
  }

  updateConfiguration(
    name: string,
    configuration: { readonly deleteProtection?: boolean | undefined },
    options: PlatformCallOptions = {},
  ): PlatformCall<GroupConfiguration> {
    checkOptions(configuration, CONFIGURATION)
    const http = this.#http
    return http.call(
      {
        method: 'PATCH',
        path: path`/v1/organizations/${http.organization}/groups/${name}/configuration`,
        body: bodyOf(configuration),
        isRepeatable: true,
      },
      options,
      (answer) => answer.whole<GroupConfiguration>(),
    )
  }

  /** Gives the group to another organization. API tokens of the group end. @param organization slug of its new owner */
  transfer(name: string, organization: string, options: PlatformCallOptions = {}): PlatformCall<Group> {
    const http = this.#http
    return http.call(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/groups/${name}/transfer`,
        body: { organization },
      },
      options,
      readGroup,
    )
  }

  /** Brings back a group that was archived because nobody used it. */
  unarchive(name: string, options: PlatformCallOptions = {}): PlatformCall<Group> {
    const http = this.#http
    return http.call(
      { method: 'POST', path: path`/v1/organizations/${http.organization}/groups/${name}/unarchive` },
      options,
      readGroup,
    )
  }

  /**
   * Adds a location.
   * @param options `wait`: until it is ready, by a route that the service does not document. @default false
   */
  addLocation(
    name: string,
    location: string,
    options: PlatformCallOptions & { readonly wait?: boolean | undefined } = {},
  ): PlatformCall<Group> {
    checkOptions(options, { ...CALL, wait: 'boolean' })
    const { wait = false, ...callOptions } = options
    const http = this.#http
    const added = http.call(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/groups/${name}/locations/${location}`,
      },
      callOptions,
      readGroup,
    )
    return wait ? added.andThen(() => waitForLocation(http, name, location, callOptions)) : added
  }

  /** Takes a location away, and the replicas in it. @returns the group */
  removeLocation(name: string, location: string, options: PlatformCallOptions = {}): PlatformCall<Group> {
    const http = this.#http
    return http.call(
      {
        method: 'DELETE',
        path: path`/v1/organizations/${http.organization}/groups/${name}/locations/${location}`,
      },
      options,
      readGroup,
    )
  }

  /** Brings the databases of the group to the newest version. Withdrawn by the service in 2026. */
  update(name: string, options: PlatformCallOptions = {}): PlatformCall<void> {
    const http = this.#http
    return http.command(
      { method: 'POST', path: path`/v1/organizations/${http.organization}/groups/${name}/update` },
      options,
    )
  }

  /** Makes a token for all databases of the group. Never sent twice when it may have arrived. */
  createToken(name: string, options: CreateTokenOptions = {}): PlatformCall<DatabaseToken> {
    checkOptions(options, CREATE_TOKEN)
    const { signal, timeoutMs, ...mint } = options
    const http = this.#http
    return http.call(
      mintRoute(path`/v1/organizations/${http.organization}/groups/${name}/auth/tokens`, mint),
      { signal, timeoutMs },
      (answer) => answer.text('jwt') as DatabaseToken,
    )
  }

  /** Ends every token of the group and of its databases at once, by a new key. Never sent twice when it may have arrived. */
  rotateTokens(name: string, options: PlatformCallOptions = {}): PlatformCall<void> {
    const http = this.#http
    return http.command(
      { method: 'POST', path: path`/v1/organizations/${http.organization}/groups/${name}/auth/rotate` },
      options,
    )
  }

  async #find(name: string, options: PlatformCallOptions): Promise<Group | null> {
    try {
      return await this.get(name, options)
    } catch (error) {
      if (isMissing(error)) return null
      throw error
    }
  }

  #checkIsAsAsked(found: Group, { name, location }: NewGroup): Group {
    if (found.primary === location) return found
    throw new MismatchError({
      method: 'GET',
      path: path`/v1/organizations/${this.#http.organization}/groups/${name}`,
      message: `group "${name}" is not as asked for: its primary is in "${found.primary}" and not in "${location}"`,
      code: 'MISMATCH',
      outcome: 'not_applied',
    })
  }
}

const readGroup = (answer: { object<T>(key: string, own: string): T }): Group =>
  answer.object<Group>('group', 'name')

/** Waits until a new location of a group is ready: the service answers when it is. */
export function waitForLocation(
  http: PlatformHttp,
  group: string,
  location: string,
  options: PlatformCallOptions,
): PlatformCall<void> {
  return http.command(
    {
      method: 'GET',
      path: path`/v1/organizations/${http.organization}/groups/${group}/locations/${location}/wait`,
    },
    options,
  )
}
