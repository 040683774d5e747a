import type { TokenAuthorization } from '@batonsql/control-plane'
import type { RemoteSqldOptions, ReplicaLag } from '@batonsql/server-common/backend'
import type { Dialect } from '@batonsql/server-common/hrana'
import type { PlatformOptions } from './platform-options.ts'
import type { LogLevel } from './server-log.ts'

/** Options of `startLocalServer`. */
export interface LocalServerOptions {
  /** `embedded` runs libSQL in threads of this process, `sqld` runs the real libsql-server. @default 'embedded' */
  readonly backend?: 'embedded' | 'sqld'
  /** Directory of databases, names and the signing key. By default, a temporary one, removed by `close()`. */
  readonly dataDirectory?: string
  /** @default a free port */
  readonly port?: number
  /** Address to listen on; unless it is a loopback address, other machines can reach the server. @default '127.0.0.1' */
  readonly host?: string
  /** Whether requests to databases need a token. @default false, or true with `platform` */
  readonly auth?: boolean
  /**
   * Which server the back end `embedded` imitates: `sqld` behaves exactly like libsql-server, which silently drops an incomplete
   * statement that follows others; `cloud` like the front end of the hosted service.
   * @default like libsql-server, but a script with an incomplete statement is rejected as a whole
   */
  readonly dialect?: Dialect
  /** Also serves the platform API: organizations, groups, databases, tokens. `{}` for all defaults. */
  readonly platform?: PlatformOptions
  /**
   * Databases that are created before the server accepts requests, by name, such as `{ files: { fromFile: 'files.db' } }`. Those that
   * the data directory already contains stay as they are. A function is called only for a database that must be created.
   * @default {}
   */
  readonly databases?: InitialDatabases
  /** Path of the libsql-server program, for the back end `sqld`; by default found by `findSqld`. */
  readonly sqldPath?: string
  /** Uses a libsql-server that is already running with `--enable-namespaces`, instead of starting one. */
  readonly sqld?: RemoteSqldOptions
  /**
   * Locations in which the databases of the group `default` have replicas, such as `['fra']`. They are kept in the data directory.
   * For the back end `sqld`. @default []
   */
  readonly replicas?: readonly string[]
  /**
   * Delays replication to the replicas, in ms: for all of them, or by location, such as `{ fra: 500 }`. For the back end `sqld`.
   * @default 0
   */
  readonly replicaLagMs?: ReplicaLag
  /** Maps host names (without port) to databases. @default {} */
  readonly domains?: Readonly<Record<string, string>>
  /**
   * Origins of web pages that may use the server, such as `https://app.example`, in addition to pages on this machine
   * (`http://localhost:3000` and the like). All others are rejected. @default []
   */
  readonly allowOrigins?: readonly string[]
  /**
   * Serves the request inspector at `/_baton`: a page that shows live requests, statements, transactions and who holds the write
   * lock. It is limited to this machine: other machines and other web pages are rejected. It cannot be combined with tokens
   * (`auth`, or `platform` without `auth: false`), because it shows the statements of every database to anyone. @default false
   */
  readonly inspector?: boolean
  /**
   * Logs to stderr, one line of JSON for each event: `errors` logs failed and rejected requests, starts and stops; `requests`
   * logs all requests. @default 'none'
   */
  readonly log?: LogLevel
  /**
   * Called if the lock of `dataDirectory` was removed and another server has taken it. This server then ends at once, without writing
   * anything: requests get 503, and calls reject. @default a process warning
   */
  readonly onLost?: (error: Error) => void
}

/** Whether requests to databases need tokens: by default, only if the server has the platform API. */
export function takesTokens({ auth, platform }: Pick<LocalServerOptions, 'auth' | 'platform'>): boolean {
  return auth ?? platform !== undefined
}

/** Settings of a database that can be changed at any time. */
export interface DatabaseOptions {
  /**
   * Size at which writes fail with `SQLITE_FULL`, such as `256mb` or `1gb`; applies to streams opened afterwards. Null for no limit.
   * @default null
   */
  readonly sizeLimit?: string | null
  /** Rejects all statements with the code `BLOCKED`. @default false */
  readonly blockReads?: boolean
  /** Rejects writes with the code `BLOCKED`. @default false */
  readonly blockWrites?: boolean
  /** Included in the error of a blocked statement. @default null */
  readonly blockReason?: string | null
  /** Allows other databases of the server to attach this one for reading. @default false */
  readonly allowAttach?: boolean
}

/** Initial content and settings of a database. Only one of `fromFile`, `fromDatabase`, `isSchema` and `schema` can be given. */
export interface NewDatabaseOptions extends DatabaseOptions {
  /**
   * Path of an SQLite file to copy; no other program may write to it while it is copied. The back end `sqld` needs the default page
   * size of 4,096 bytes; a libsql-server given as `sqld` cannot import files.
   */
  readonly fromFile?: string
  /** Name of a database of this server to copy, with its latest committed state, while reads and writes continue. */
  readonly fromDatabase?: string
  /** Name of a snapshot of `fromDatabase` to copy, instead of its latest state. */
  readonly fromSnapshot?: string
  /**
   * Whether other databases can share its schema. If so, changes to this database are also applied to them (see `/v1/jobs`).
   * @default false
   */
  readonly isSchema?: boolean
  /** Name of the database whose schema it shares; the new database begins as a copy of it. */
  readonly schema?: string
  /**
   * Name of its group, which determines the locations of its replicas. Groups are created with the platform API.
   * @default the group of `fromDatabase`, or else `default`
   */
  readonly group?: string
}

/** Databases that a server creates at its start unless it has them: their options, or functions that return them. */
export type InitialDatabases = Readonly<
  Record<string, NewDatabaseOptions | (() => NewDatabaseOptions | Promise<NewDatabaseOptions>)>
>

/** A copy of a database in a file of the data directory. */
export interface Snapshot {
  readonly name: string
  /** Size of its file, in bytes. */
  readonly bytes: number
  /** When its creation began. */
  readonly createdAt: Date
}

/** Permissions and lifetime of a new token. */
export interface TokenOptions {
  /** @default 'full-access' */
  readonly authorization?: TokenAuthorization
  /** Lifetime, such as `15m` or `2w1d`, or `never`. @default 'never' */
  readonly expiration?: string
  /** Names of databases that it may attach and read, if they allow it (`allowAttach`). @default [] */
  readonly readAttach?: readonly string[]
}
