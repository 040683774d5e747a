import { checkOptions } from '../../base/check-options.ts'
import type {
  CreatedDatabase,
  Database,
  DatabaseConfiguration,
  DatabaseUsage,
  Instance,
  QueryStatistics,
} from '../models.ts'
import { type Page, Pages, readCursor } from '../pages.ts'
import type { PlatformCall } from '../platform-call.ts'
import type { PlatformCallOptions } from '../platform-config.ts'
import { isAlreadyExists, isMissing, MismatchError, PlatformError } from '../platform-errors.ts'
import { CALL, type Deleted, PAGED, type PlatformHttp, REMOVE, type RemoveOptions } from '../platform-http.ts'
import { path } from '../platform-path.ts'
import type { DatabaseToken } from '../platform-token.ts'
import { type WaitUntilReadyOptions, waitForDatabase } from '../readiness.ts'
import { bodyOf } from '../view.ts'
import { CREATE_TOKEN, type CreateTokenOptions, mintRoute } from './token-options.ts'
import { readUsage, USAGE, type UsageOptions, usageQuery } from './usage.ts'

/** Where the rows of a new database come from. */
export interface DatabaseSeed {
  readonly type: 'database' | 'database_upload' | 'dump'
  /** Name of the database to branch from. */
  readonly name?: string | undefined
  /** State of it to begin with: ISO 8601. Without it the newest. */
  readonly timestamp?: string | Date | undefined
  /** Of a dump that was uploaded: see `unstable.databases.uploadDump`. */
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

export interface ListDatabasesOptions extends PlatformCallOptions {
  /** Only those of one group. */
  readonly group?: string | undefined
  /** Only the branches of a database: its id. */
  readonly parent?: string | undefined
  /** Only the children of a schema database: its name. @deprecated by the service */
  readonly schema?: string | undefined
  /** How many at a time. @default 100 */
  readonly pageSize?: number | undefined
}

/** What to change; what is left out stays. An empty list clears one. */
export interface DatabaseConfigurationInput {
  readonly sizeLimit?: string | undefined
  readonly blockReads?: boolean | undefined
  readonly blockWrites?: boolean | undefined
  readonly deleteProtection?: boolean | undefined
  readonly allowedIps?: readonly string[] | undefined
  readonly allowedAwsVpcIds?: readonly string[] | undefined
  /** @deprecated by the service */
  readonly allowAttach?: boolean | undefined
}

const LIST = { ...PAGED, group: 'string', parent: 'string', schema: 'string' }
const CREATE = { ...CALL, wait: 'boolean or object' }
const NEW_DATABASE = {
  name: 'string',
  group: 'string',
  seed: 'object',
  sizeLimit: 'string',
  remoteEncryption: 'object',
  isSchema: 'boolean',
  schema: 'string',
}
const CONFIGURATION = {
  sizeLimit: 'string',
  blockReads: 'boolean',
  blockWrites: 'boolean',
  deleteProtection: 'boolean',
  allowedIps: 'object',
  allowedAwsVpcIds: 'object',
  allowAttach: 'boolean',
}

/** Databases of the organization. Those that take a name throw a NotFoundError when there is none of that name. */
export class Databases {
  readonly #http: PlatformHttp

  constructor(http: PlatformHttp) {
    this.#http = http
  }

  /** Databases, in pages. */
  list(options: ListDatabasesOptions = {}): Pages<Database> {
    checkOptions(options, LIST)
    const { group, parent, schema, pageSize = 100, ...callOptions } = options
    const http = this.#http
    return new Pages((cursor) =>
      http.call<Page<Database>>(
        {
          method: 'GET',
          path: path`/v1/organizations/${http.organization}/databases`,
          query: { group, parent, schema, limit: pageSize, cursor },
        },
        callOptions,
        (answer) => ({ items: answer.list<Database>('databases'), next: readCursor(answer) }),
      ),
    )
  }

  /**
   * Makes a database. It may take seconds until it can be reached: see `wait`. Never sent twice when it may have arrived;
   * see `ensure` for what can be repeated.
   * @throws ConflictError or BadRequestError when the name is taken (`isAlreadyExists`), BadRequestError for no such group
   */
  create(database: NewDatabase, options: CreateDatabaseOptions = {}): PlatformCall<CreatedDatabase> {
    checkOptions(database, NEW_DATABASE)
    checkOptions(options, CREATE)
    const { wait = false, ...callOptions } = options
    const http = this.#http
    const created = http.call(
      {
        method: 'POST',
        path: path`/v1/organizations/${http.organization}/databases`,
        body: bodyOf(database),
      },
      callOptions,
      (answer) => answer.object<CreatedDatabase>('database', 'hostname'),
    )
    if (wait === false) return created
    const { signal } = callOptions
    return created.andThen(({ hostname }) =>
      waitForDatabase(http, hostname, { signal, ...(wait === true ? {} : wait) }),
    )
  }

  /**
   * Makes sure that there is a database of this name, and that it is in that group and branched from that seed. May be
   * repeated, also after an answer that was lost.
   * @returns `created`: whether it was made by this call; also true when that answer was lost and it is there now
   * @throws MismatchError when there is one of that name that is not as asked for
   */
  async ensure(
    database: NewDatabase,
    options: CreateDatabaseOptions = {},
  ): Promise<{ readonly created: boolean; readonly database: Database }> {
    checkOptions(database, NEW_DATABASE)
    checkOptions(options, CREATE)
    const { wait: _, ...callOptions } = options
    const there = await this.#find(database.name, callOptions)
    if (there) return { created: false, database: this.#checkIsAsAsked(there, database) }
    let created = true
    try {
      await this.create(database, options)
    } catch (error) {
      const isTaken = isAlreadyExists(error)
      if (!isTaken && !(error instanceof PlatformError && error.outcome === 'unknown')) throw error
      const found = options.signal?.aborted ? null : await this.#find(database.name, callOptions)
      if (!found) throw error
      created = !isTaken
      return { created, database: this.#checkIsAsAsked(found, database) }
    }
    return { created, database: await this.get(database.name, callOptions) }
  }

  get(name: string, options: PlatformCallOptions = {}): PlatformCall<Database> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/databases/${name}` },
      options,
      (answer) => answer.object<Database>('database', 'hostname'),
    )
  }

  /** Deletes a database with everything in it. */
  delete(name: string, options: RemoveOptions = {}): PlatformCall<Deleted> {
    checkOptions(options, REMOVE)
    const http = this.#http
    return http.remove(
      { method: 'DELETE', path: path`/v1/organizations/${http.organization}/databases/${name}` },
      options,
    )
  }

  getConfiguration(name: string, options: PlatformCallOptions = {}): PlatformCall<DatabaseConfiguration> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/databases/${name}/configuration` },
      options,
      (answer) => answer.whole<DatabaseConfiguration>(),
    )
  }

  /** @returns the whole configuration */
  updateConfiguration(
    name: string,
    configuration: DatabaseConfigurationInput,
    options: PlatformCallOptions = {},
  ): PlatformCall<DatabaseConfiguration> {
    checkOptions(configuration, CONFIGURATION)
    const http = this.#http
    return http.call(
      {
        method: 'PATCH',
        path: path`/v1/organizations/${http.organization}/databases/${name}/configuration`,
        body: bodyOf(configuration),
        isRepeatable: true,
      },
      options,
      (answer) => answer.whole<DatabaseConfiguration>(),
    )
  }

  listInstances(name: string, options: PlatformCallOptions = {}): PlatformCall<Instance[]> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/databases/${name}/instances` },
      options,
      (answer) => answer.list<Instance>('instances'),
    )
  }

  getInstance(name: string, instance: string, options: PlatformCallOptions = {}): PlatformCall<Instance> {
    const http = this.#http
    return http.call(
      {
        method: 'GET',
        path: path`/v1/organizations/${http.organization}/databases/${name}/instances/${instance}`,
      },
      options,
      (answer) => answer.object<Instance>('instance', 'uuid'),
    )
  }

  /**
   * Makes a token for the database. It can't be listed or revoked by itself: give it a short life (`databaseToken`), or
   * rotate. Never sent twice when it may have arrived.
   */
  createToken(name: string, options: CreateTokenOptions = {}): PlatformCall<DatabaseToken> {
    checkOptions(options, CREATE_TOKEN)
    const { signal, timeoutMs, ...mint } = options
    const http = this.#http
    return http.call(
      mintRoute(path`/v1/organizations/${http.organization}/databases/${name}/auth/tokens`, mint),
      { signal, timeoutMs },
      (answer) => answer.text('jwt') as DatabaseToken,
    )
  }

  /** Ends every token of the database at once, by a new key. Never sent twice when it may have arrived. */
  rotateTokens(name: string, options: PlatformCallOptions = {}): PlatformCall<void> {
    const http = this.#http
    return http.command(
      { method: 'POST', path: path`/v1/organizations/${http.organization}/databases/${name}/auth/rotate` },
      options,
    )
  }

  /** What the database used. @param options `from`, `to`: by default the current month */
  usage(name: string, options: UsageOptions = {}): PlatformCall<DatabaseUsage> {
    checkOptions(options, USAGE)
    const { from, to, ...callOptions } = options
    const http = this.#http
    return http.call(
      {
        method: 'GET',
        path: path`/v1/organizations/${http.organization}/databases/${name}/usage`,
        query: usageQuery({ from, to }),
      },
      callOptions,
      (answer) => readUsage(answer.object<DatabaseUsage>('database', 'uuid')),
    )
  }

  /** The queries that read and wrote most; null when the service has no figures. */
  stats(name: string, options: PlatformCallOptions = {}): PlatformCall<QueryStatistics[] | null> {
    const http = this.#http
    return http.call(
      { method: 'GET', path: path`/v1/organizations/${http.organization}/databases/${name}/stats` },
      options,
      (answer) => answer.listOrNull<QueryStatistics>('top_queries'),
    )
  }

  /**
   * Waits until the database answers at its own host, which a new one does not do for some seconds: HTTP 404, 5xx or no
   * answer means not yet. @throws TimeoutError after `timeoutMs` (by default 30,000)
   */
  async waitUntilReady(
    database: string | CreatedDatabase,
    options: WaitUntilReadyOptions = {},
  ): Promise<void> {
    const { hostname } =
      typeof database === 'string' ? await this.get(database, { signal: options.signal }) : database
    await waitForDatabase(this.#http, hostname, options)
  }

  async #find(name: string, options: PlatformCallOptions): Promise<Database | null> {
    try {
      return await this.get(name, options)
    } catch (error) {
      if (isMissing(error)) return null
      throw error
    }
  }

  #checkIsAsAsked(found: Database, { name, group, seed }: NewDatabase): Database {
    const differences: string[] = []
    if (found.group !== group) differences.push(`it is in group "${found.group}" and not in "${group}"`)
    const { parent } = found
    const wanted = seed?.type === 'database' ? (seed.name ?? null) : null
    const isKnown = parent !== undefined && (seed === undefined || wanted !== null)
    if (isKnown && (parent?.name ?? null) !== wanted)
      differences.push(parent ? `it was branched from "${parent.name}"` : 'it was not branched from any')
    if (differences.length === 0) return found
    throw new MismatchError({
      method: 'GET',
      path: path`/v1/organizations/${this.#http.organization}/databases/${name}`,
      message: `database "${name}" is not as asked for: ${differences.join(', ')}`,
      code: 'MISMATCH',
      outcome: 'not_applied',
    })
  }
}
