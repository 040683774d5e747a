import type { PlatformCallOptions, ResolvedConfig } from '../config.ts'
import { ensure } from '../ensure.ts'
import type * as models from '../models.ts'
import { callOf } from '../platform-call.ts'
import { type Answer, fieldOf, list, nothing, one, text, whole } from '../readers.ts'
import { type WaitUntilReadyOptions, waitForDatabase } from '../readiness.ts'
import { checkedBody, type PagedOptions, pathOf, type Routes, unsent } from '../route.ts'
import type { DatabaseToken } from '../token.ts'
import { bodyOrNone, isObject, viewOf, withRaw } from '../view.ts'

/** Where the rows of a new database come from. */
export interface DatabaseSeed {
  readonly type: 'database' | 'database_upload' | 'dump'
  /** Name of the database to branch from. */
  readonly name?: string | undefined
  /** State of it to begin with: ISO 8601. Without it the newest. */
  readonly timestamp?: string | Date | undefined
  /** Of a dump that was uploaded, by a route that the service's documentation lacks. */
  readonly url?: string | undefined
}

export interface NewDatabase {
  /** Lower-case letters, digits and dashes. */
  readonly name: string
  readonly group: string
  readonly seed?: DatabaseSeed | undefined
  /** Bytes, or a number with a unit: `256mb`. */
  readonly sizeLimit?: string | undefined
  readonly remoteEncryption?:
    | { readonly encryptionKey: string; readonly encryptionCipher: string }
    | undefined
  /** Makes it the parent of a multi-database schema. Not in the service's documentation any more. */
  readonly isSchema?: boolean | undefined
  /** Name of the parent whose schema it shares. Not in the service's documentation any more. */
  readonly schema?: string | undefined
}

export interface CreateDatabaseOptions extends PlatformCallOptions {
  /** Waits until the database answers: see `waitUntilReady`. @default false */
  readonly wait?: boolean | WaitUntilReadyOptions | undefined
}

export interface ListDatabasesOptions extends PagedOptions {
  /** Only those of one group. */
  readonly group?: string | undefined
  /** Only the branches of a database: its id. */
  readonly parent?: string | undefined
  /** Only the children of a schema database: its name. @deprecated by the service */
  readonly schema?: string | undefined
}

/** What to change; what is left out stays. An empty list clears one. */
export type DatabaseConfigurationInput = models.Optional<Omit<models.DatabaseConfiguration, 'raw'>>

export interface UsageOptions extends PlatformCallOptions {
  /** Begin of the time: a Date, or RFC 3339 with its zone. */
  readonly from?: Date | string | undefined
  readonly to?: Date | string | undefined
}

/** What may be done with the tables that a permission names. */
export type TableAction =
  | `data_${'read' | 'add' | 'update' | 'delete'}`
  | `schema_${'add' | 'update' | 'delete'}`

/** What a token of a database or group may do. */
export interface CreateTokenOptions extends PlatformCallOptions {
  /** How long it lives: `2w1d30m`, `1h`, or `never`. @default 'never' */
  readonly expiration?: string | undefined
  /** @default 'full-access' */
  readonly authorization?: 'full-access' | 'read-only' | undefined
  /** Databases that it may attach and read. Sent only when given: some engines refuse any. */
  readonly readAttach?: readonly string[] | undefined
  /** Permissions for single tables; `tables: null` means all. The service has them, its documentation does not. */
  readonly permissions?:
    | readonly {
        readonly tables: readonly string[] | null
        readonly actions: readonly models.Known<TableAction>[]
      }[]
    | undefined
}

/** Rights of a token. */
export const RIGHTS = {
  authorization: "'full-access' or 'read-only'",
  readAttach: 'object',
  permissions: 'object',
}

export const MINT = {
  rules: { ...RIGHTS, expiration: 'string' },
  send: ({ expiration, authorization, readAttach, permissions }: CreateTokenOptions) => ({
    query: { expiration, authorization },
    body: bodyOrNone({
      permissions: readAttach && { readAttach: { databases: readAttach } },
      fineGrainedPermissions: permissions?.map(({ tables, actions }) => ({ t: tables, a: actions })),
    }),
  }),
}

/** The service has called the sum `usage` and `total`. */
export function withTotal(usage: models.DatabaseUsage): models.DatabaseUsage {
  const { raw } = usage
  const total = raw['total'] ?? raw['usage']
  return withRaw({ ...usage, total: isObject(total) ? viewOf(total) : null }, raw)
}

const timeText = (time: Date | string | undefined): string | undefined =>
  time instanceof Date ? time.toISOString() : time

const ALL = '/v1/organizations/{organization}/databases'
const ONE = `${ALL}/{name}` as const

const bodyOfDatabase = (database: NewDatabase): object =>
  checkedBody(database, {
    string: ['name', 'group', 'sizeLimit', 'schema'],
    object: ['seed', 'remoteEncryption'],
    boolean: ['isSchema'],
  })

const databaseRoutes = ({ route, removal, pages }: Routes) => ({
  /** Databases, in pages. */
  list: pages(
    `GET ${ALL}`,
    (cursor, limit) => ({ limit, cursor }),
    () => (answer) => {
      const next = fieldOf(fieldOf(answer.body, 'pagination'), 'next')
      const isLast = typeof next !== 'string' || next === ''
      return { items: list<models.Database>('databases')(answer), next: isLast ? null : next }
    },
    {
      rules: { group: 'string', parent: 'string', schema: 'string' },
      send: ({ group, parent, schema }: ListDatabasesOptions) => ({ query: { group, parent, schema } }),
    },
  ),
  /**
   * Makes a database. It may take seconds until it can be reached: see `wait`. Never sent twice when it may have arrived;
   * see `ensure` for what can be repeated.
   * @throws PlatformError with status 409 or 400 when the name is taken (`isAlreadyExists`), 400 for no such group
   */
  create: route(`POST ${ALL}`, one<models.CreatedDatabase>('database', 'hostname'), {
    body: bodyOfDatabase,
    rules: { wait: 'boolean or object' },
    send: unsent<CreateDatabaseOptions>(),
  }),
  /** A database by its name. @throws PlatformError with status 404 when there is none (`isNotFound`) */
  get: route(`GET ${ONE}`, one<models.Database>('database', 'hostname')),
  /** Deletes a database with everything in it. */
  delete: removal(`DELETE ${ONE}`),
  /** What is allowed, blocked and protected. */
  getConfiguration: route(`GET ${ONE}/configuration`, whole<models.DatabaseConfiguration>()),
  /** Changes some of it. @returns the whole configuration */
  updateConfiguration: route(`PATCH ${ONE}/configuration`, whole<models.DatabaseConfiguration>(), {
    body: (configuration: DatabaseConfigurationInput) =>
      checkedBody(configuration, {
        string: ['sizeLimit'],
        boolean: ['blockReads', 'blockWrites', 'deleteProtection', 'allowAttach'],
        object: ['allowedIps', 'allowedAwsVpcIds'],
      }),
    isRepeatable: true,
  }),
  /** The primary of the database and its replicas. */
  listInstances: route(`GET ${ONE}/instances`, list<models.Instance>('instances')),
  /** One of them by its name. */
  getInstance: route(`GET ${ONE}/instances/{instance}`, one<models.Instance>('instance', 'uuid')),
  /**
   * Makes a token for the database. It can't be listed or revoked by itself: give it a short life (`databaseToken`), or
   * rotate. Never sent twice when it may have arrived.
   */
  createToken: route(`POST ${ONE}/auth/tokens`, text<DatabaseToken>('jwt'), MINT),
  /** Ends every token of the database at once, by a new key. Never sent twice when it may have arrived. */
  rotateTokens: route(`POST ${ONE}/auth/rotate`, nothing),
  /** What the database used: by default in the current month, else `from` a time `to` another. */
  usage: route(
    `GET ${ONE}/usage`,
    (answer) => withTotal(one<models.DatabaseUsage>('database', 'uuid')(answer)),
    {
      rules: { from: 'string or object', to: 'string or object' },
      send: ({ from, to }: UsageOptions) => ({ query: { from: timeText(from), to: timeText(to) } }),
    },
  ),
  /** The queries that read and wrote most; null when the service has no figures. */
  stats: route(`GET ${ONE}/stats`, (answer: Answer) =>
    fieldOf(answer.body, 'top_queries') === null ? null : list<models.QueryStatistics>('top_queries')(answer),
  ),
})

/** Databases of the organization. Methods that take a name throw a PlatformError with status 404 when there is none. */
export interface Databases extends ReturnType<typeof databaseRoutes> {
  /**
   * Makes sure that there is a database of this name, and that it is in that group and branched from that seed. May be
   * repeated, also after an answer that was lost.
   * @param options `wait`: for one that is new
   * @returns `created`: whether it was made by this call; also true when that answer was lost and it is there now
   * @throws PlatformError with code `MISMATCH` when that name is taken by a database in another group or with another parent
   */
  ensure(
    database: NewDatabase,
    options?: CreateDatabaseOptions,
  ): Promise<{ readonly created: boolean; readonly database: models.Database }>
  /**
   * Waits until the database answers at its own host, which a new one does not do for some seconds: HTTP 404, 5xx or no
   * answer means not yet. @throws PlatformError with code `TIMEOUT` after `timeoutMs` (by default 30,000)
   */
  waitUntilReady(database: string | models.CreatedDatabase, options?: WaitUntilReadyOptions): Promise<void>
}

export function databasesOf(config: ResolvedConfig, routes: Routes): Databases {
  const methods = databaseRoutes(routes)
  const { create, get } = methods
  const ready = async (hostname: string, { wait = false, signal }: CreateDatabaseOptions): Promise<void> => {
    if (wait !== false) await waitForDatabase(config, hostname, { signal, ...(wait === true ? {} : wait) })
  }
  return {
    ...methods,
    create(database, options = {}) {
      const created = create(database, options).withResponse()
      return callOf(created.then((answered) => ready(answered.data.hostname, options).then(() => answered)))
    },
    async ensure(database, options = {}) {
      bodyOfDatabase(database) // a mistake is one also where there is nothing to make
      const { name } = database
      const { wait: _, ...callOptions } = options
      const { created, isNew, found } = await ensure({
        what: `database "${name}"`,
        path: pathOf(ONE, config, [name]),
        find: () => get(name, callOptions),
        make: () => create(database, options).then(() => get(name, callOptions)),
        differencesOf: (there) => differencesOf(there, database),
        signal: options.signal,
      })
      if (isNew) await ready(found.hostname, options)
      return { created, database: found }
    },
    async waitUntilReady(database, options = {}) {
      const { signal } = options
      const { hostname } = typeof database === 'string' ? await get(database, { signal }) : database
      await waitForDatabase(config, hostname, options)
    },
  }
}

function differencesOf({ group, parent }: models.Database, asked: NewDatabase): string[] {
  const differences: string[] = []
  if (group !== asked.group) differences.push(`it is in group "${group}" and not in "${asked.group}"`)
  const { seed } = asked
  const wanted = seed?.type === 'database' ? (seed.name ?? null) : null
  const isKnown = parent !== undefined && (seed === undefined || wanted !== null)
  if (isKnown && (parent?.name ?? null) !== wanted)
    differences.push(parent ? `it was branched from "${parent.name}"` : 'it was not branched from any')
  return differences
}
