import type { DatabaseId, DatabaseSettings, QueryUsage, SchemaRole } from '@batonsql/server-common/backend'
import type {
  BatchStep,
  Condition,
  Dialect,
  FailureContentType,
  Permissions,
  PipelineRequest,
  StatementRequest,
} from '@batonsql/server-common/hrana'
import type { JsonText } from './json-text.ts'

export interface WorkerStart {
  readonly module: WebAssembly.Module
  /** Whether this process was started with `--wasm-code-gc`. */
  readonly freesMachineCode: boolean
  /** Memory of the `SharedCallState`. */
  readonly state: SharedArrayBuffer
}

export type ToWorker =
  | ({ readonly type: 'open' } & DatabaseToOpen)
  | { readonly type: 'settings'; readonly settings: DatabaseSettings }
  | StreamCall
  /** Starts or stops reporting committed changes, with `changes`. */
  | { readonly type: 'watch'; readonly isWatched: boolean }
  | { readonly type: 'cursor-read'; readonly call: number }
  /** The result of a call is no longer needed, for example because its client has disconnected. */
  | { readonly type: 'abandon'; readonly call: number }
  | { readonly type: 'close-stream'; readonly stream: number }
  /** Buffers of earlier results, which have been sent. */
  | { readonly type: 'recycle'; readonly buffers: readonly ArrayBuffer[] }
  /** The response to a `request`. */
  | { readonly type: 'reply'; readonly number: number; readonly reply: Reply }
  /**
   * Closes the database; acknowledged by `released`. `keepsFiles: false` means that its files are about to be removed: there is no
   * checkpoint.
   */
  | { readonly type: 'release'; readonly keepsFiles: boolean }
  /** Closes all connections, which checkpoints the WAL unless the disk is full, and exits. */
  | { readonly type: 'shut-down' }

export interface DatabaseToOpen {
  readonly id: DatabaseId
  readonly path: string
  readonly settings: DatabaseSettings
  readonly role: SchemaRole
  readonly dialect: Dialect | null
  /** Whether each commit is on disk before it is acknowledged. */
  readonly isDurable: boolean
  /** Its replication index when this process closed it; null if this process has not closed it. */
  readonly lastIndex: bigint | null
}

export type CallWork =
  | { readonly type: 'pipeline'; readonly requests: readonly PipelineRequest[]; readonly version: 2 | 3 }
  | { readonly type: 'cursor'; readonly steps: readonly BatchStep[] }
  | { readonly type: 'dump'; readonly preserveRowIds: boolean }
  /** Runs a migration of the shared schema; the text of the outcome is its error. */
  | {
      readonly type: 'migration'
      readonly job: number
      /** A `MigrationProgram` as text. */
      readonly program: string
      readonly isDryRun: boolean
    }
  /** Copies the current state of the database to a file and its WAL. */
  | { readonly type: 'snapshot'; readonly path: string }

/**
 * A step of a batch as a tuple. Objects take more than twice as long to send to a thread, because their keys are sent with each of
 * them. The condition is the number of a step if that step must have succeeded.
 */
export type PackedStep = readonly [
  sql: StatementRequest['sql'],
  sqlId: StatementRequest['sqlId'],
  args: StatementRequest['args'],
  namedArgs: StatementRequest['namedArgs'],
  wantRows: StatementRequest['wantRows'],
  condition: Condition | number | null,
]

/** A request of a pipeline whose steps are packed. */
export type PackedRequest =
  | Exclude<PipelineRequest, { readonly type: 'batch' }>
  | { readonly type: 'batch'; readonly steps: readonly PackedStep[] }

export type PackedWork =
  | Exclude<CallWork, { readonly type: 'pipeline' | 'cursor' }>
  | { readonly type: 'pipeline'; readonly requests: readonly PackedRequest[]; readonly version: 2 | 3 }
  | { readonly type: 'cursor'; readonly steps: readonly PackedStep[] }

export type StreamCall = PackedWork & {
  readonly call: number
  readonly stream: number
  readonly permissions: Permissions
}

/** A worker's request to the server that concerns other databases. */
export type WorkerRequest =
  /** Requests that a copy of a database that a statement attaches is written to `path`. `allowed`: what the client may attach. */
  | {
      readonly type: 'attach'
      readonly stream: number
      readonly name: string
      readonly allowed: Permissions['attach']
      readonly path: string
    }
  /** Migrates the children of this schema database, and then the database itself, after a dry run here. */
  | { readonly type: 'migrate'; readonly program: string }

/** The reply to an ATTACH whose client lacks the permission. */
export const NO_ATTACH_PERMISSION = 'not permitted'
/** The reply to an ATTACH of a database whose settings do not allow it, or that does not exist. */
export const NOT_ATTACHABLE = 'not allowed'

/**
 * Null on success; otherwise the error, as text for the client: for ATTACH, one of the two constants. An internal error fails the whole
 * request of the client, which does not receive its text.
 */
export type Reply = string | null | { readonly internalError: string }

export type CallOutcome =
  /** `isClosed`: whether the stream was closed. */
  | { readonly type: 'results'; readonly text: JsonText; readonly isClosed: boolean }
  | {
      readonly type: 'failure'
      readonly status: number
      readonly contentType: FailureContentType
      readonly body: string
    }

/** The number of rows of a table that a transaction has changed. */
export interface TableChanges {
  readonly table: string
  /** Changes that SQLite reports with a code other than those of the three below. */
  unknown: number
  delete: number
  insert: number
  update: number
}

export type FromWorker =
  | { readonly type: 'ready'; readonly sqliteVersion: string }
  /** The database was closed. `isReusable`: the worker takes little memory, so that it may be given another. */
  | { readonly type: 'released'; readonly isReusable: boolean; readonly lastIndex: bigint | null }
  | {
      readonly type: 'outcome'
      readonly call: number
      readonly outcome: CallOutcome
      /** Usage since the last outcome that the worker sent; `query` is at most 1,000 characters of the SQL. */
      readonly usage: readonly QueryUsage[]
    }
  /** A transaction that changed rows was committed; sent only to watchers, before the outcome of its call. */
  | { readonly type: 'changes'; readonly changes: readonly TableChanges[] }
  /** Expects a `reply`. */
  | { readonly type: 'request'; readonly number: number; readonly request: WorkerRequest }
  /** The batch of a cursor was accepted, or a dump begins. The first lines follow at once, and more after each `cursor-read`. */
  | { readonly type: 'cursor-begin'; readonly call: number }
  | { readonly type: 'cursor-lines'; readonly call: number; readonly text: JsonText }
