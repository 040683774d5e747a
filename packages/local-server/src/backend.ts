import type { ServiceRequest, ServiceResponse } from './exchange.ts'

/** Names a database inside a back end. Made by `newDatabaseId` only, so that no text of a user becomes a path. */
export type DatabaseId = string & { readonly __brand: 'DatabaseId' }

/** The whole desired state of a database. */
export interface DatabaseSettings {
  /** Size at which writes fail with SQLITE_FULL. Null for none. */
  readonly sizeLimitBytes: number | null
  readonly blockReads: boolean
  readonly blockWrites: boolean
  /** Shown to clients that meet a block. */
  readonly blockReason: string | null
  /** Whether other databases may attach it, to read it. */
  readonly allowAttach: boolean
}

/** Schemas are shared: what changes a schema database changes its children. */
export type SchemaRole = 'plain' | 'schema' | 'child'

/** An engine that holds databases by opaque id. Knows nothing of names, or of who owns a token. */
export interface DatabaseBackend extends AsyncDisposable {
  readonly kind: 'embedded' | 'sqld'
  /** Starts the engine; resolves with what `GET /version` answers. */
  start(): Promise<string>
  /** To be called when the settings of all databases are known: goes on with what the end of the process has interrupted. */
  resume(): void
  /** Afterwards the database exists with these settings, or the id must not be used again. */
  create(id: DatabaseId, settings: DatabaseSettings): Promise<void>
  /** Creates a database as a copy of an SQLite file. Rejects where the back end cannot, or the file is none. */
  createFromFile(id: DatabaseId, settings: DatabaseSettings, file: string): Promise<void>
  /** Writes a database to a new SQLite file; its open streams end. Rejects where the back end cannot. */
  exportTo(id: DatabaseId, file: string): Promise<void>
  applySettings(id: DatabaseId, settings: DatabaseSettings): Promise<void>
  /** Removing what is not there is fine. */
  remove(id: DatabaseId): Promise<void>
  /** Answers a request for a route of a database; `request.path` begins at the database. */
  handle(id: DatabaseId, request: ServiceRequest): Promise<ServiceResponse>
}
