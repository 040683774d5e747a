import { CALL_OPTIONS, type Condition, checkOptions, STRINGS } from '@batonsql/options'
import type { PlatformCallOptions, ResolvedConfig } from '../config.ts'
import { createUnlessExists } from '../ensure.ts'
import type { Group, GroupConfiguration, Optional } from '../models.ts'
import { toPlatformCall } from '../platform-call.ts'
import { afterWrite, PlatformError } from '../platform-error.ts'
import { bodyObject, list, noResult, object, text } from '../readers.ts'
import { buildPath, checkedBody, type Routes, sendNothing, textBody } from '../route.ts'
import type { DatabaseToken } from '../token.ts'
import { copyJson } from '../view.ts'
import { TOKEN_INPUT } from './databases.ts'

/** A group to create. */
export interface NewGroup {
  readonly name: string
  /** Code of a location: see `locations.list()`. */
  readonly location: string
  /** SQLite extensions that its databases load. */
  readonly extensions?: 'all' | readonly string[] | undefined
}

/** Changes to a configuration; omitted fields are kept. */
export type GroupConfigurationInput = Optional<Omit<GroupConfiguration, 'raw'>>

/** Options of `addLocation`. */
export interface AddLocationOptions extends PlatformCallOptions {
  /**
   * Waits until the location is ready, using an undocumented route of the service. If this fails, the call rejects with the outcome
   * `unknown`, although the location has been added.
   * @default false
   */
  readonly wait?: boolean | undefined
}

const GROUPS_PATH = '/v1/organizations/{organization}/groups'
const GROUP_PATH = `${GROUPS_PATH}/{name}` as const
const readOne = object<Group>('group', 'name')

const EXTENSIONS: Condition = {
  text: "'all', or an array of strings",
  accepts: (value) => value === 'all' || STRINGS.accepts(value),
}

const toGroupBody = (group: NewGroup): object =>
  checkedBody(group, { name: 'string', location: 'string', extensions: EXTENSIONS })

const groupRoutes = ({ route, removal }: Routes) => ({
  /** Lists the groups of the organization. */
  list: route(`GET ${GROUPS_PATH}`, list<Group>('groups')),
  /**
   * Creates a group. Never retried if the request may have arrived; see `ensure`.
   * @throws PlatformError with status 409 if the name is taken (`isAlreadyExists`)
   */
  create: route(`POST ${GROUPS_PATH}`, readOne, {
    body: toGroupBody,
  }),
  /** Returns a group by its name. @throws PlatformError with status 404 if it does not exist (`isNotFound`) */
  get: route(`GET ${GROUP_PATH}`, readOne),
  /** Deletes a group with all of its databases and API tokens. */
  delete: removal(`DELETE ${GROUP_PATH}`),
  /** Returns the configuration: whether the group is protected. */
  getConfiguration: route(`GET ${GROUP_PATH}/configuration`, bodyObject<GroupConfiguration>()),
  /** Changes the configuration. @returns the whole configuration */
  updateConfiguration: route(`PATCH ${GROUP_PATH}/configuration`, bodyObject<GroupConfiguration>(), {
    body: (configuration: GroupConfigurationInput) =>
      checkedBody(configuration, { deleteProtection: 'boolean' }),
    isIdempotent: true,
  }),
  /**
   * Transfers the group to another organization, by its slug. API tokens of the group become invalid; on a server of Baton, also the
   * tokens of its databases.
   */
  transfer: route(`POST ${GROUP_PATH}/transfer`, readOne, {
    body: (organization: string) => textBody('organization', organization),
  }),
  /** Unarchives a group that was archived because it was not used. */
  unarchive: route(`POST ${GROUP_PATH}/unarchive`, readOne),
  /** Adds a location. */
  addLocation: route(`POST ${GROUP_PATH}/locations/{location}`, readOne, {
    rules: { wait: 'boolean' },
    send: sendNothing<AddLocationOptions>(),
  }),
  /** Removes a location and its replicas. @returns the group */
  removeLocation: route(`DELETE ${GROUP_PATH}/locations/{location}`, readOne),
  /** Updates the databases of the group to the newest version. Withdrawn by the service in 2026. */
  update: route(`POST ${GROUP_PATH}/update`, noResult),
  /** Creates a token for all databases of the group. Never retried if the request may have arrived. */
  createToken: route(`POST ${GROUP_PATH}/auth/tokens`, text<DatabaseToken>('jwt'), TOKEN_INPUT),
  /** Invalidates all tokens of the group and its databases by rotating the key. Never retried if the request may have arrived. */
  rotateTokens: route(`POST ${GROUP_PATH}/auth/rotate`, noResult),
})

/** Groups of the organization. Methods that take a name reject with a PlatformError with status 404 if there is no group with it. */
export interface Groups extends ReturnType<typeof groupRoutes> {
  /**
   * Creates a group unless it exists with its primary in that location. Idempotent, even if a response was lost.
   * @returns `created`: whether this call created it; also true if the response was lost and it exists now
   * @throws PlatformError with code `MISMATCH` if its primary is elsewhere
   */
  ensure(
    group: NewGroup,
    options?: PlatformCallOptions,
  ): Promise<{ readonly created: boolean; readonly group: Group }>
}

export function buildGroups(config: ResolvedConfig, routes: Routes): Groups {
  const methods = groupRoutes(routes)
  // the service responds only when the location is ready
  const waitForLocation = routes.route(`GET ${GROUP_PATH}/locations/{location}/wait`, noResult)
  return {
    ...methods,
    addLocation(name, location, options) {
      const call = methods.addLocation(name, location, options)
      const { wait, ...callOptions } = options ?? {}
      if (!wait) return call
      const waitUntilReady = (): Promise<void> => afterWrite(waitForLocation(name, location, callOptions))
      return toPlatformCall(call.withResponse().then((result) => waitUntilReady().then(() => result)))
    },
    removeLocation(name, location, options) {
      const call = methods.removeLocation(name, location, options).withResponse()
      const result = call.catch((error: unknown) => {
        // with this outcome, an earlier attempt whose response was lost may have removed the location
        const mayBeRemoved = error instanceof PlatformError && error.outcome === 'unknown'
        if (!mayBeRemoved || !/invalid location code/i.test(error.reason ?? '')) throw error
        return methods.get(name, options).withResponse()
      })
      return toPlatformCall(result)
    },
    async ensure(requested, options = {}) {
      toGroupBody(requested) // checked even if there is nothing to create
      checkOptions(options, CALL_OPTIONS)
      const callOptions = { ...options }
      const group = copyJson(requested)
      const { name, location } = group
      const { created, resource } = await createUnlessExists({
        label: `group "${name}"`,
        path: buildPath(GROUP_PATH, config, [name]),
        find: () => methods.get(name, callOptions),
        create: () => methods.create(group, callOptions),
        findDifferences: ({ primary }) =>
          primary === location ? [] : [`its primary is in "${primary}", not "${location}"`],
        signal: options.signal,
      })
      return { created, group: resource }
    },
  }
}
