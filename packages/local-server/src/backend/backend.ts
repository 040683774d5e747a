import type { ServiceRequest, ServiceResponse } from '../http/service-request.ts'

/** Names a database inside a back end. Made by `newDatabaseId` only, so that no text of a user becomes a path. */
export type DatabaseId = string & { readonly __brand: 'DatabaseId' }

/** The whole desired state of a database. */
export interface DatabaseSettings {
  /** Size at which writes fail with SQLITE_FULL. Null for none. */
  readonly sizeLimitBytes: number | null
  /** Whether other databases may attach this one. */
  readonly allowAttach: boolean
  /** Whether writes to it are migrations of the databases that share its schema. @default false */
  readonly isSchema?: boolean
  readonly blockReads: boolean
  readonly blockWrites: boolean
  /** Shown to clients that meet a block. */
  readonly blockReason: string | null
  /** Ed25519 public keys (PEM) that tokens are checked with. Without one the database is closed, never open. */
  readonly keys: readonly string[]
}

/** Which access to a database has ended: all of it, or write access. */
export type EndedAccess = 'all' | 'writes'

/** What a database begins as. */
export type DatabaseSource =
  | { readonly type: 'empty' }
  /** A copy of an SQLite file that no other program writes to meanwhile. */
  | { readonly type: 'file'; readonly file: string }
  /** What a file of SQL statements makes. */
  | { readonly type: 'dump'; readonly file: string }
  /** A copy of another database. */
  | { readonly type: 'fork'; readonly from: DatabaseId }
  /** A database whose schema others have. */
  | { readonly type: 'schema' }
  | { readonly type: 'schema-child'; readonly parent: DatabaseId }

/** What a database has done since its count began. */
export interface UsageSample {
  /** Names the count: with another one the numbers begin at zero. */
  readonly epoch: string
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly storageBytes: number
}

/** What the statements of one text have done. */
export interface QueryUsage {
  readonly query: string
  readonly rowsRead: number
  readonly rowsWritten: number
}

/** The back end cannot do this, or not with what it was given; the message is for the caller. */
export class BackendRefusal extends Error {
  override readonly name = 'BackendRefusal'
}

/** Schemas are shared: what changes a schema database changes its children. */
export type SchemaRole = 'plain' | 'schema' | 'child'

/** An engine that holds databases by opaque id. Knows nothing of names, or of who owns a token. */
export interface DatabaseBackend extends AsyncDisposable {
  readonly kind: 'embedded' | 'sqld'
  /** Whether tokens can have permissions for single tables (the claim `perm`). */
  readonly hasTablePermissions: boolean
  /** Moves what is on the disk and not known out of the way, before the start; resolves with its ids. */
  quarantineUnknown(known: ReadonlySet<DatabaseId>): Promise<readonly DatabaseId[]>
  /** Starts the engine; resolves with what `GET /version` answers. */
  start(): Promise<string>
  /** To be called when the settings of all databases are known: goes on with what the end of the process has interrupted. */
  resume(): void
  /**
   * Afterwards the database exists complete with these settings, or the id must not be used again.
   * @throws BackendRefusal when the source is of no use, or of a kind the back end does not have
   */
  create(id: DatabaseId, source: DatabaseSource, settings: DatabaseSettings): Promise<void>
  /** Writes a database to a new SQLite file. @throws BackendRefusal where there is no such way */
  exportTo(id: DatabaseId, file: string): Promise<void>
  /** Takes over the whole desired state; false when the database is not there. */
  applySettings(id: DatabaseId, settings: DatabaseSettings): Promise<boolean>
  /**
   * Brings a database to another group, where the back end keeps groups apart; `commit` makes it one of that group, or
   * throws. Settings are to be applied afterwards; where it rejects, those of the group that the database is still in.
   */
  move?(id: DatabaseId, group: string, settings: DatabaseSettings, commit: () => void): Promise<void>
  /** Removing what is not there is fine. */
  remove(id: DatabaseId): Promise<void>
  /** A group is gone, and has no database any more: what the back end keeps for it, if anything, goes. */
  endGroup?(group: string): Promise<void>
  /**
   * Ends what runs under an access that the settings no longer give: requests, streams with their transactions, change streams.
   * Resolves when nothing of it can read or write.
   */
  endAccess(id: DatabaseId, access: EndedAccess): Promise<void>
  /** Ends all requests before the server stops, where their usage is counted only when they end. */
  endRequests?(): Promise<void>
  sampleUsage(id: DatabaseId): Promise<UsageSample>
  /** What is wrong with the engine of a database that does not answer; null where all is well. */
  healthProblem?(id: DatabaseId): Promise<string | null>
  /** Of the statements since the count began, those that have read and written most. */
  topQueries(id: DatabaseId): Promise<readonly QueryUsage[]>
  /** Answers a request for a route of a database; `request.path` begins at the database. */
  handle(id: DatabaseId, request: ServiceRequest): Promise<ServiceResponse>
}

/** Where a libsql-server runs that is not ours; plain HTTP, so on this machine or on a network that is trusted. */
export interface RemoteSqldOptions {
  /** Its HTTP API, as `http://10.0.0.5:8080`. */
  readonly url: string
  /** Its admin API (`--admin-listen-addr`). */
  readonly adminUrl: string
  /** What it was started with as `--admin-auth-key`. */
  readonly adminKey: string
}
