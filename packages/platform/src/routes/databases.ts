import {
  CALL_OPTIONS,
  type Condition,
  checkOption,
  checkOptions,
  isPlainObject,
  PLAIN_OBJECT,
  STRINGS,
} from '@batonsql/options'
import type { PlatformCallOptions, ResolvedConfig } from '../config.ts'
import { createUnlessExists } from '../ensure.ts'
import type * as models from '../models.ts'
import { startCall, toPlatformCall } from '../platform-call.ts'
import { afterWrite } from '../platform-error.ts'
import { bodyObject, getField, list, noResult, object, type ParsedResponse, text } from '../readers.ts'
import { checkWaitOptions, type WaitUntilReadyOptions, waitForDatabase } from '../readiness.ts'
import { buildPath, checkedBody, type PagedOptions, type Routes, sendNothing } from '../route.ts'
import type { DatabaseToken } from '../token.ts'
import { copyJson, isObject, toOptionalBody, toView, withRaw } from '../view.ts'

/** Source of the rows of a new database. */
export interface DatabaseSeed {
  /** A database to branch from (`name`), a file that is uploaded afterwards, or an uploaded dump (`url`). */
  readonly type: 'database' | 'database_upload' | 'dump'
  /** Name of the database to branch from. */
  readonly name?: string | undefined
  /** Point in time of the source: ISO 8601. @default the latest state */
  readonly timestamp?: string | Date | undefined
  /** URL of a dump that was uploaded with a route that the service does not document. */
  readonly url?: string | undefined
}

/** A database to create. */
export interface NewDatabase {
  /** Lower-case letters, digits and dashes. */
  readonly name: string
  /** Name of its group. */
  readonly group: string
  /** By default, the database is empty. */
  readonly seed?: DatabaseSeed | undefined
  /** Bytes, or a number with a unit: `256mb`. @default no limit */
  readonly sizeLimit?: string | undefined
  /** Key and cipher that encrypt the database. */
  readonly remoteEncryption?:
    | { readonly encryptionKey: string; readonly encryptionCipher: string }
    | undefined
  /** Creates the parent of a multi-database schema. No longer documented by the service. */
  readonly isSchema?: boolean | undefined
  /** Name of the parent whose schema it shares. No longer documented by the service. */
  readonly schema?: string | undefined
}

/** Options of the creation of a database. */
export interface CreateDatabaseOptions extends PlatformCallOptions {
  /**
   * Waits until the database responds: see `waitUntilReady`. The wait has its own timeout, and uses the call's signal unless it is
   * given another. If the wait fails, the call rejects although the database has been created; the outcome is `unknown`. An error that
   * `authToken` throws is not changed.
   * @default false
   */
  readonly wait?: boolean | WaitUntilReadyOptions | undefined
}

/** Filters of a list of databases. */
export interface ListDatabasesOptions extends PagedOptions {
  /** Only databases of a group. */
  readonly group?: string | undefined
  /** Only branches of a database, by its id. */
  readonly parent?: string | undefined
  /** Only children of a schema database, by its name. @deprecated by the service */
  readonly schema?: string | undefined
}

/** Changes to a configuration; omitted fields are unchanged, and an empty list clears the stored one. */
export type DatabaseConfigurationInput = models.Optional<Omit<models.DatabaseConfiguration, 'raw'>>

/** Period of the usage; by default the current month. */
export interface UsageOptions extends PlatformCallOptions {
  /** Start of the period: a Date, or RFC 3339 with a zone. */
  readonly from?: Date | string | undefined
  /** End of the period, in the same formats. */
  readonly to?: Date | string | undefined
}

/** Actions on the tables of a permission. */
export type TableAction =
  | `data_${'read' | 'add' | 'update' | 'delete'}`
  | `schema_${'add' | 'update' | 'delete'}`

/** Permissions and lifetime of a token for a database or group. */
export interface CreateTokenOptions extends PlatformCallOptions {
  /** Lifetime: `2w1d30m`, `1h`, or `never`. @default 'never' */
  readonly expiration?: string | undefined
  /** @default 'full-access' */
  readonly authorization?: 'full-access' | 'read-only' | undefined
  /** Databases that it may attach for reading. Sent only if set, because some engines reject any. */
  readonly readAttach?: readonly string[] | undefined
  /** Permissions for tables; `tables: null` means all. Supported by the service, but not documented. */
  readonly permissions?:
    | readonly {
        readonly tables: readonly string[] | null
        readonly actions: readonly models.Known<TableAction>[]
      }[]
    | undefined
}

const PERMISSION_LIST: Condition = {
  text: 'an array of { tables, actions }',
  accepts: (value) => Array.isArray(value) && value.every(isPlainObject),
}

/** Rules for the options that limit what a token permits. */
export const PERMISSIONS = {
  authorization: ['full-access', 'read-only'],
  readAttach: STRINGS,
  permissions: PERMISSION_LIST,
} as const

/** Options of the routes that create tokens, for databases and for groups. */
export const TOKEN_INPUT = {
  rules: { ...PERMISSIONS, expiration: 'string' as const },
  send: ({ expiration, authorization, readAttach, permissions }: CreateTokenOptions) => ({
    query: { expiration, authorization },
    body: toOptionalBody({
      permissions: readAttach && { readAttach: { databases: readAttach } },
      fineGrainedPermissions: permissions?.map(({ tables, actions }) => ({ t: tables, a: actions })),
    }),
  }),
}

/** Adds the total, which the service has called both `usage` and `total`. */
export function withTotal(usage: models.DatabaseUsage): models.DatabaseUsage {
  const { raw } = usage
  const total = raw['total'] ?? raw['usage']
  return withRaw({ ...usage, total: isObject(total) ? toView(total) : null }, raw)
}

const WAIT: Condition = {
  text: 'a boolean, or the options of waitUntilReady',
  accepts: (value) => typeof value === 'boolean' || isPlainObject(value),
}

const DATE_OR_TEXT: Condition = {
  text: 'a valid Date or text',
  accepts: (value) => typeof value === 'string' || (value instanceof Date && !Number.isNaN(value.getTime())),
}

const formatTime = (time: Date | string | undefined): string | undefined =>
  time instanceof Date ? time.toISOString() : time

const DATABASES_PATH = '/v1/organizations/{organization}/databases'
const DATABASE_PATH = `${DATABASES_PATH}/{name}` as const

const toDatabaseBody = (database: NewDatabase): object =>
  checkedBody(database, {
    name: 'string',
    group: 'string',
    seed: PLAIN_OBJECT,
    sizeLimit: 'string',
    isSchema: 'boolean',
    schema: 'string',
    remoteEncryption: PLAIN_OBJECT,
  })

const databaseRoutes = ({ route, removal, pages }: Routes) => ({
  /** Lists databases, in pages. */
  list: pages(
    `GET ${DATABASES_PATH}`,
    (cursor, limit) => ({ limit, cursor }),
    () => (response) => {
      const nextCursor = getField(getField(response.body, 'pagination'), 'next')
      const isLast = typeof nextCursor !== 'string' || nextCursor === ''
      return { items: list<models.Database>('databases')(response), next: isLast ? null : nextCursor }
    },
    {
      rules: { group: 'string', parent: 'string', schema: 'string' },
      send: ({ group, parent, schema }: ListDatabasesOptions) => ({ query: { group, parent, schema } }),
    },
  ),
  /**
   * Creates a database. It may take a few seconds to become reachable: see `wait`. Never retried if the request may have
   * arrived; `ensure` is idempotent.
   * @throws PlatformError with status 409 or 400 if the name is taken (`isAlreadyExists`), 400 if the group does not exist
   */
  create: route(`POST ${DATABASES_PATH}`, object<models.CreatedDatabase>('database', 'hostname'), {
    body: toDatabaseBody,
    rules: { wait: WAIT },
    send: sendNothing<CreateDatabaseOptions>(),
  }),
  /** Returns a database by its name. @throws PlatformError with status 404 if it does not exist (`isNotFound`) */
  get: route(`GET ${DATABASE_PATH}`, object<models.Database>('database', 'hostname')),
  /** Deletes a database and its data. */
  delete: removal(`DELETE ${DATABASE_PATH}`),
  /** Returns the configuration: limits, blocks and protection. */
  getConfiguration: route(`GET ${DATABASE_PATH}/configuration`, bodyObject<models.DatabaseConfiguration>()),
  /** Changes part of the configuration. @returns the whole configuration */
  updateConfiguration: route(
    `PATCH ${DATABASE_PATH}/configuration`,
    bodyObject<models.DatabaseConfiguration>(),
    {
      body: (configuration: DatabaseConfigurationInput) =>
        checkedBody(configuration, {
          sizeLimit: 'string',
          blockReads: 'boolean',
          blockWrites: 'boolean',
          deleteProtection: 'boolean',
          allowAttach: 'boolean',
          allowedIps: STRINGS,
          allowedAwsVpcIds: STRINGS,
        }),
      isIdempotent: true,
    },
  ),
  /** Lists the primary of the database and its replicas. */
  listInstances: route(`GET ${DATABASE_PATH}/instances`, list<models.Instance>('instances')),
  /** Returns an instance by its name. */
  getInstance: route(
    `GET ${DATABASE_PATH}/instances/{instance}`,
    object<models.Instance>('instance', 'uuid'),
  ),
  /** Lists the snapshots of a database, oldest first. Only on a server of Baton, like all methods of snapshots. */
  listSnapshots: route(`GET ${DATABASE_PATH}/snapshots`, list<models.Snapshot>('snapshots')),
  /**
   * Keeps a copy of the current state, by default named for the time. A name has 1 to 64 characters a-z, 0-9 and `-`. Never retried if
   * the request may have arrived.
   * @throws PlatformError with status 409 if the name is taken (`isAlreadyExists`)
   */
  createSnapshot: route(`POST ${DATABASE_PATH}/snapshots`, object<models.Snapshot>('snapshot', 'name'), {
    body: (snapshot: { readonly name?: string | undefined }) => checkedBody(snapshot, { name: 'string' }),
  }),
  /**
   * Replaces the content of a database with a snapshot; all connections are closed first. The database gets a new id: create new tokens.
   * Never retried if the request may have arrived.
   */
  restoreSnapshot: route(
    `POST ${DATABASE_PATH}/snapshots/{snapshot}/restore`,
    object<models.CreatedDatabase>('database', 'hostname'),
  ),
  /** Deletes a snapshot. */
  deleteSnapshot: removal(`DELETE ${DATABASE_PATH}/snapshots/{snapshot}`),
  /**
   * Creates a token for the database. Individual tokens can be neither listed nor revoked: use a short lifetime (`databaseToken`), or
   * rotate. Never retried if the request may have arrived.
   */
  createToken: route(`POST ${DATABASE_PATH}/auth/tokens`, text<DatabaseToken>('jwt'), TOKEN_INPUT),
  /** Invalidates all tokens of the database by rotating its key. Never retried if the request may have arrived. */
  rotateTokens: route(`POST ${DATABASE_PATH}/auth/rotate`, noResult),
  /** Returns the usage of the database in the current month, or in the given period. */
  usage: route(
    `GET ${DATABASE_PATH}/usage`,
    (response) => withTotal(object<models.DatabaseUsage>('database', 'uuid')(response)),
    {
      rules: { from: DATE_OR_TEXT, to: DATE_OR_TEXT },
      send: ({ from, to }: UsageOptions) => ({ query: { from: formatTime(from), to: formatTime(to) } }),
    },
  ),
  /** Returns the queries that read and wrote the most rows; null if the service has no data. */
  stats: route(`GET ${DATABASE_PATH}/stats`, (response: ParsedResponse) =>
    getField(response.body, 'top_queries') === null
      ? null
      : list<models.QueryStatistics>('top_queries')(response),
  ),
})

/** Databases of the organization. Methods that take a name reject with a PlatformError with status 404 if there is no database with it. */
export interface Databases extends ReturnType<typeof databaseRoutes> {
  /**
   * Creates a database unless one of that name exists. Idempotent, even if a response was lost.
   * @param options `wait` applies only if the database is new
   * @returns `created`: whether this call created it; also true if the response was lost and it exists now
   * @throws PlatformError with code `MISMATCH` if a database of that name is in another group or was branched from another one; whether it
   * was created from the same dump, file or time is not known
   */
  ensure(
    database: NewDatabase,
    options?: CreateDatabaseOptions,
  ): Promise<{ readonly created: boolean; readonly database: models.Database }>
  /**
   * Waits until the database responds at its host, which may take a few seconds after its creation: HTTP 404, 5xx or no response means
   * that it is not ready yet.
   * @throws PlatformError with code `TIMEOUT` after `timeoutMs` (by default 30,000); finding the host of a name has the same limit
   */
  waitUntilReady(database: string | models.CreatedDatabase, options?: WaitUntilReadyOptions): Promise<void>
}

export function buildDatabases(config: ResolvedConfig, routes: Routes): Databases {
  const methods = databaseRoutes(routes)
  const { create, get } = methods
  /** Returns a function that waits for the new database if requested. @throws TypeError for invalid wait options */
  const prepareWait = ({ wait = false, signal }: CreateDatabaseOptions) => {
    checkOption('wait', wait, WAIT)
    const waitOptions = typeof wait === 'object' ? { ...wait } : {}
    checkWaitOptions(waitOptions)
    return async (hostname: string): Promise<void> => {
      if (wait !== false)
        await afterWrite(
          waitForDatabase(config, hostname, { ...waitOptions, signal: waitOptions.signal ?? signal }),
        )
    }
  }
  return {
    ...methods,
    create: (database, options) =>
      startCall(() => {
        const waitIfRequested = prepareWait(options ?? {})
        const creation = create(database, options).withResponse()
        return toPlatformCall(
          creation.then((result) => waitIfRequested(result.data.hostname).then(() => result)),
        )
      }),
    async ensure(requested, options = {}) {
      toDatabaseBody(requested) // checked even if there is nothing to create
      checkOptions(options, { ...CALL_OPTIONS, wait: WAIT })
      const waitIfRequested = prepareWait(options)
      const database = copyJson(requested)
      const { name } = database
      const { wait: _, ...callOptions } = options
      const { created, wasMissing, resource } = await createUnlessExists({
        label: `database "${name}"`,
        path: buildPath(DATABASE_PATH, config, [name]),
        find: () => get(name, callOptions),
        create: () => create(database, callOptions).then(() => afterWrite(get(name, callOptions))),
        findDifferences: (existing) => findDifferences(existing, database),
        signal: options.signal,
      })
      if (wasMissing) await waitIfRequested(resource.hostname)
      return { created, database: resource }
    },
    async waitUntilReady(database, options = {}) {
      checkOption('database', database, 'string or object')
      checkWaitOptions(options)
      const { signal, timeoutMs, authToken } = options
      const { hostname } =
        typeof database === 'string' ? await get(database, { signal, timeoutMs }) : database
      await waitForDatabase(config, hostname, { signal, timeoutMs, authToken })
    },
  }
}

function findDifferences({ group, parent }: models.Database, requested: NewDatabase): string[] {
  const differences: string[] = []
  if (group !== requested.group) differences.push(`it is in group "${group}", not "${requested.group}"`)
  const { seed } = requested
  const requestedParent = seed?.type === 'database' ? (seed.name ?? null) : null
  // a database that was created from a dump or a file has no parent, and some services report none
  const canCompareParent = parent !== undefined && (seed === undefined || requestedParent !== null)
  if (canCompareParent && (parent?.name ?? null) !== requestedParent)
    differences.push(parent ? `it was branched from "${parent.name}"` : 'it was not branched from a database')
  return differences
}
