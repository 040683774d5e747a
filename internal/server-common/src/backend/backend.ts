import type { ServiceRequest, ServiceResponse } from '../http/service-request.ts'

/** Id of a database in a back end. Created only by `newDatabaseId`, so that no user input becomes a path. */
export type DatabaseId = string & { readonly __brand: 'DatabaseId' }

export interface DatabaseSettings {
  /** Size at which writes fail with SQLITE_FULL; null for no limit. */
  readonly sizeLimitBytes: number | null
  /** Whether other databases may attach this one. */
  readonly allowAttach: boolean
  /** Whether writes to it are migrations of the databases that share its schema. */
  readonly isSchema: boolean
  readonly blockReads: boolean
  readonly blockWrites: boolean
  /** Included in the error of a blocked statement. */
  readonly blockReason: string | null
  /** Ed25519 public keys (PEM) for verifying tokens. Without any, all tokens are rejected. */
  readonly keys: readonly string[]
}

/** The settings of a database without limits and blocks. Without keys, it is accessible only if no tokens are required. */
export const DEFAULT_SETTINGS: DatabaseSettings = {
  sizeLimitBytes: null,
  allowAttach: false,
  isSchema: false,
  blockReads: false,
  blockWrites: false,
  blockReason: null,
  keys: [],
}

/** Returns the error of a blocked statement or request, in the words of libsql-server. */
export function describeBlock(blockReason: string | null): string {
  return `Operation was blocked${blockReason === null ? '' : `: ${blockReason}`}`
}

/** Access that was revoked: all of it, or only write access. */
export type RevokedAccess = 'all' | 'writes'

export type DatabaseSource =
  | { readonly type: 'empty' }
  /** Copies an SQLite file that no other program is writing to. */
  | { readonly type: 'file'; readonly file: string }
  /** Copies another database. */
  | { readonly type: 'fork'; readonly from: DatabaseId }
  /** Creates a database whose schema others can share. */
  | { readonly type: 'schema' }
  /** Copies a schema database, and shares its schema. */
  | { readonly type: 'schema-child'; readonly parent: DatabaseId }

/** Usage of a database since counting began. */
export interface UsageSample {
  /** Changes whenever the counters restart at zero. */
  readonly epoch: string
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly storageBytes: number
}

/** Usage of all statements with the same SQL. */
export interface QueryUsage {
  readonly query: string
  readonly rowsRead: number
  readonly rowsWritten: number
}

/** Thrown if the back end does not support an operation or its arguments. The message is meant for the caller. */
export class BackendError extends Error {
  override readonly name = 'BackendError'
}

/** Thrown if the replicas in a location do not start. The cause, which contains paths and output of the process, is for the log. */
export class ReplicaStartError extends Error {
  override readonly name = 'ReplicaStartError'
  readonly location: string

  constructor(location: string, cause: unknown) {
    super(`the replica in ${location} did not start; the server's log shows the reason`, { cause })
    this.location = location
  }
}

/** Role of a database in schema sharing: changes to a schema database are applied to its children. */
export type SchemaRole = 'plain' | 'schema' | 'child'

/** An engine that hosts databases under opaque ids, independent of their names and of token owners. */
export interface DatabaseBackend extends AsyncDisposable {
  readonly kind: 'embedded' | 'sqld'
  /** Whether tokens can have permissions for tables (claim `perm`). */
  readonly hasTablePermissions: boolean
  /** Sets aside the databases on disk that are not in the registry. Called before `start`. @returns their ids */
  setAsideUnregistered(registeredIds: ReadonlySet<DatabaseId>): Promise<readonly DatabaseId[]>
  /** Starts the engine. @returns the response to `GET /version` */
  start(): Promise<string>
  /** Resumes migrations that the previous server left unfinished. Called when the settings of all databases are known. */
  resume(): void
  /**
   * Creates a database completely, with its settings. If it rejects, the id must not be used again.
   * @throws BackendError if the source cannot be used, or is not supported
   */
  create(id: DatabaseId, source: DatabaseSource, settings: DatabaseSettings): Promise<void>
  /** Writes a database to a new SQLite file. @throws BackendError if this is not supported */
  exportTo(id: DatabaseId, file: string): Promise<void>
  /** Replaces all settings. @returns false if the database does not exist */
  applySettings(id: DatabaseId, settings: DatabaseSettings): Promise<boolean>
  /**
   * Moves a database to another group. Absent if the back end does not separate groups. `commit` changes its group in the registry, or
   * throws. The database is created there with `settings`; if this rejects, it stays in its group, where its writes are blocked. So
   * the settings must be applied afterwards in both cases.
   */
  move?(id: DatabaseId, group: string, settings: DatabaseSettings, commit: () => void): Promise<void>
  /** Removes a database, if it exists. @throws Error if it is a schema database that has children */
  remove(id: DatabaseId): Promise<void>
  /** Removes the remaining files of a removed group, which has no databases. Absent if the back end does not separate groups. */
  removeGroup?(group: string): Promise<void>
  /**
   * Aborts everything that uses revoked access: requests, streams with their transactions, change streams. Resolves when they
   * can no longer read or write.
   */
  revokeAccess(id: DatabaseId, access: RevokedAccess): Promise<void>
  /** Ends at once without writing anything, because another server uses the directory. */
  abandon(): Promise<void>
  /** Aborts all requests before the server stops. Present if usage is counted only when a request ends. */
  abortRequests?(): Promise<void>
  sampleUsage(id: DatabaseId): Promise<UsageSample>
  /**
   * Describes why a database cannot be read; null if it can. Reads a page of it.
   * @param location location of the replica that is read; null for the primary. @default null
   */
  findHealthProblem(id: DatabaseId, location?: string | null): Promise<string | null>
  /**
   * Called when the locations of a group's replicas have changed. Absent if databases cannot have replicas.
   * @throws ReplicaStartError if a replica does not start; all others are running
   */
  setReplicas?(group: string): Promise<void>
  /** Returns the statements that have read and written the most rows since counting began. */
  topQueries(id: DatabaseId): Promise<readonly QueryUsage[]>
  /**
   * Handles a request to a route of a database; `request.path` is relative to the database.
   * @param location location of the replica that handles it; null for the primary. @default null
   */
  handle(id: DatabaseId, request: ServiceRequest, location?: string | null): Promise<ServiceResponse>
}

/** Addresses of a remote libsql-server. Connections use plain HTTP, so it must be on this machine or in a trusted network. */
export interface RemoteSqldOptions {
  /** URL of its HTTP API, such as `http://10.0.0.5:8080`. */
  readonly url: string
  /** URL of its admin API (`--admin-listen-addr`). */
  readonly adminUrl: string
  /** Its `--admin-auth-key`. */
  readonly adminKey: string
}
