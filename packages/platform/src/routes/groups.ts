import type { PlatformCallOptions, ResolvedConfig } from '../config.ts'
import { ensure } from '../ensure.ts'
import type { Group, GroupConfiguration, Optional } from '../models.ts'
import { callOf } from '../platform-call.ts'
import { list, nothing, one, text, whole } from '../readers.ts'
import { checkedBody, pathOf, type Routes, unsent } from '../route.ts'
import type { DatabaseToken } from '../token.ts'
import { MINT } from './databases.ts'

export interface NewGroup {
  readonly name: string
  /** Code of a location: see `locations.list()`. */
  readonly location: string
  /** SQLite extensions that its databases load. */
  readonly extensions?: 'all' | readonly string[] | undefined
}

/** What to change; what is left out stays. */
export type GroupConfigurationInput = Optional<Omit<GroupConfiguration, 'raw'>>

export interface AddLocationOptions extends PlatformCallOptions {
  /** Waits until the location is ready, by a route that the service does not document. @default false */
  readonly wait?: boolean | undefined
}

const ALL = '/v1/organizations/{organization}/groups'
const ONE = `${ALL}/{name}` as const
const readOne = one<Group>('group', 'name')

const bodyOfGroup = (group: NewGroup): object =>
  checkedBody(group, { string: ['name', 'location'], "'all' or object": ['extensions'] })

const groupRoutes = ({ route, removal }: Routes) => ({
  /** Groups of the organization. */
  list: route(`GET ${ALL}`, list<Group>('groups')),
  /**
   * Makes a group. Never sent twice when it may have arrived; see `ensure`.
   * @throws PlatformError with status 409 when the name is taken (`isAlreadyExists`)
   */
  create: route(`POST ${ALL}`, readOne, {
    body: bodyOfGroup,
  }),
  /** A group by its name. @throws PlatformError with status 404 when there is none (`isNotFound`) */
  get: route(`GET ${ONE}`, readOne),
  /** Deletes a group with all of its databases and API tokens. */
  delete: removal(`DELETE ${ONE}`),
  /** Whether the group is protected. */
  getConfiguration: route(`GET ${ONE}/configuration`, whole<GroupConfiguration>()),
  /** Changes whether it is. @returns the whole configuration */
  updateConfiguration: route(`PATCH ${ONE}/configuration`, whole<GroupConfiguration>(), {
    body: (configuration: GroupConfigurationInput) =>
      checkedBody(configuration, { boolean: ['deleteProtection'] }),
    isRepeatable: true,
  }),
  /** Gives the group to another organization. API tokens of the group end. `organization` is the slug of its new owner. */
  transfer: route(`POST ${ONE}/transfer`, readOne, { body: (organization: string) => ({ organization }) }),
  /** Brings back a group that was archived because it was not used. */
  unarchive: route(`POST ${ONE}/unarchive`, readOne),
  /** Adds a location. */
  addLocation: route(`POST ${ONE}/locations/{location}`, readOne, {
    rules: { wait: 'boolean' },
    send: unsent<AddLocationOptions>(),
  }),
  /** Takes a location away, and the replicas in it. @returns the group */
  removeLocation: route(`DELETE ${ONE}/locations/{location}`, readOne),
  /** Brings the databases of the group to the newest version. Withdrawn by the service in 2026. */
  update: route(`POST ${ONE}/update`, nothing),
  /** Makes a token for all databases of the group. Never sent twice when it may have arrived. */
  createToken: route(`POST ${ONE}/auth/tokens`, text<DatabaseToken>('jwt'), MINT),
  /** Ends every token of the group and of its databases at once, by a new key. Never sent twice when it may have arrived. */
  rotateTokens: route(`POST ${ONE}/auth/rotate`, nothing),
})

/** Groups of the organization. Methods that take a name throw a PlatformError with status 404 when there is none. */
export interface Groups extends ReturnType<typeof groupRoutes> {
  /**
   * Makes sure that there is a group of this name with its primary in that location. May be repeated, also after an answer
   * that was lost.
   * @returns `created`: whether it was made by this call; also true when that answer was lost and it is there now
   * @throws PlatformError with code `MISMATCH` when its primary is elsewhere
   */
  ensure(
    group: NewGroup,
    options?: PlatformCallOptions,
  ): Promise<{ readonly created: boolean; readonly group: Group }>
}

export function groupsOf(config: ResolvedConfig, routes: Routes): Groups {
  const methods = groupRoutes(routes)
  // the service answers when a new location is ready
  const waitFor = routes.route(`GET ${ONE}/locations/{location}/wait`, nothing)
  return {
    ...methods,
    addLocation(name, location, options = {}) {
      const added = methods.addLocation(name, location, options)
      const { wait, ...callOptions } = options
      if (!wait) return added
      const ready = async (): Promise<void> => await waitFor(name, location, callOptions)
      return callOf(added.withResponse().then((answered) => ready().then(() => answered)))
    },
    async ensure(group, options = {}) {
      bodyOfGroup(group) // a mistake is one also where there is nothing to make
      const { name, location } = group
      const { created, found } = await ensure({
        what: `group "${name}"`,
        path: pathOf(ONE, config, [name]),
        find: () => methods.get(name, options),
        make: () => methods.create(group, options),
        differencesOf: ({ primary }) =>
          primary === location ? [] : [`its primary is in "${primary}" and not in "${location}"`],
        signal: options.signal,
      })
      return { created, group: found }
    },
  }
}
