import type { DatabaseId, DatabaseSettings, SchemaRole } from '../../backend/backend.ts'
import type { Dialect } from '../../hrana/dialect.ts'
import type { FailureContentType } from '../../hrana/pipeline-failure.ts'
import type { BatchStep, Permissions, PipelineRequest } from '../../hrana/pipeline-types.ts'

/** What a worker is started with. */
export interface WorkerStart {
  readonly module: WebAssembly.Module
  /** The memory of the `SharedCallState`. */
  readonly state: SharedArrayBuffer
}

/** What the server sends to a worker. */
export type ToWorker =
  | ({ readonly type: 'open' } & OpenedDatabase)
  | { readonly type: 'settings'; readonly settings: DatabaseSettings }
  | StreamCall
  /** Whether committed changes are to be reported, with `changes`. */
  | { readonly type: 'watch'; readonly isWatched: boolean }
  | { readonly type: 'cursor-read'; readonly call: number }
  /** The client of a call has left. */
  | { readonly type: 'abandon'; readonly call: number }
  | { readonly type: 'close-stream'; readonly stream: number }
  /** Answers a `request`. */
  | { readonly type: 'reply'; readonly number: number; readonly reply: Reply }
  /** Closes the database, or just lets go of it when it is about to be removed; answered by `released`. */
  | { readonly type: 'release'; readonly keep: boolean }
  /** Closes all connections, so that nothing is left in the journal, and ends. */
  | { readonly type: 'end' }

/** What a worker opens. */
export interface OpenedDatabase {
  readonly id: DatabaseId
  readonly path: string
  readonly settings: DatabaseSettings
  readonly role: SchemaRole
  readonly dialect: Dialect | null
  /** Whether each commit is on the disk before it is acknowledged. */
  readonly isKept: boolean
}

/** What a call does. */
export type CallWork =
  | { readonly type: 'pipeline'; readonly requests: readonly PipelineRequest[]; readonly version: 2 | 3 }
  | { readonly type: 'cursor'; readonly steps: readonly BatchStep[] }
  | { readonly type: 'dump'; readonly preserveRowIds: boolean }
  /** Runs a migration of the schema that the database shares; the text of the outcome is what went wrong. */
  | {
      readonly type: 'migration'
      readonly job: number
      /** A `MigrationProgram` as text. */
      readonly program: string
      readonly isDryRun: boolean
    }
  /** Copies the database, as it is, to a file and its log. */
  | { readonly type: 'snapshot'; readonly path: string }

/** A call that runs on a stream. */
export type StreamCall = CallWork & {
  readonly call: number
  readonly stream: number
  readonly permissions: Permissions
}

/** What a worker asks the server for, because it concerns other databases. */
export type WorkerRequest =
  /** Has a copy made of the database that a statement attaches. */
  | {
      readonly type: 'attach'
      readonly name: string
      readonly allowed: Permissions['attach']
      readonly path: string
    }
  /** Migrates the children of this schema database, and then itself, after a dry run here. */
  | { readonly type: 'migrate'; readonly program: string }

/** Null when all went well; what went wrong otherwise, for ATTACH the permission that is missing, or empty. */
export type Reply = string | null

/** The end of a call: text for the client, or why there is none. */
export type CallOutcome =
  | { readonly type: 'results'; readonly text: string; readonly isClosed: boolean }
  | {
      readonly type: 'failure'
      readonly status: number
      readonly contentType: FailureContentType
      readonly body: string
    }

/** How many rows of a table a transaction has changed. */
export interface TableChanges {
  readonly table: string
  unknown: number
  delete: number
  insert: number
  update: number
}

/** What the statements of one text have read and written. */
export interface StatementUsage {
  readonly query: string
  readonly rowsRead: number
  readonly rowsWritten: number
}

/** What a worker sends to the server. */
export type FromWorker =
  | { readonly type: 'ready'; readonly sqliteVersion: string }
  /** The worker has no database any more, and can be given another one. */
  | { readonly type: 'released' }
  | {
      readonly type: 'answer'
      readonly call: number
      readonly outcome: CallOutcome
      /** What was read and written since the last answer of the worker. */
      readonly usage: readonly StatementUsage[]
    }
  /** A transaction has been committed; sent before its answer. */
  | { readonly type: 'changes'; readonly changes: readonly TableChanges[] }
  /** Answered by `reply`. */
  | { readonly type: 'request'; readonly number: number; readonly request: WorkerRequest }
  /** The cursor's batch is acceptable; its lines follow as asked for. */
  | { readonly type: 'cursor-begin'; readonly call: number }
  | { readonly type: 'cursor-lines'; readonly call: number; readonly text: string }
