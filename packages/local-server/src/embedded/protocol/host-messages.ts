import type { DatabaseSettings } from '../../backend.ts'
import type { FailureContentType } from './pipeline-failure.ts'
import type { BatchStep, Permissions, PipelineRequest } from './pipeline-types.ts'

/** What a worker is started with. */
export interface WorkerStart {
  readonly module: WebAssembly.Module
  /** The memory of the `CallBoard`. */
  readonly board: SharedArrayBuffer
}

/** What the server sends to a worker. */
export type ToHost =
  | ({ readonly type: 'open' } & OpenedDatabase)
  | { readonly type: 'settings'; readonly settings: DatabaseSettings }
  | StreamCall
  /** Whether committed changes are to be reported, with `changes`. */
  | { readonly type: 'watch'; readonly isWatched: boolean }
  | { readonly type: 'cursor-read'; readonly call: number }
  /** The client of a call has left. */
  | { readonly type: 'abandon'; readonly call: number }
  | { readonly type: 'close-stream'; readonly stream: number }
  /** Closes the database, or just lets go of it when it is about to be removed; answered by `released`. */
  | { readonly type: 'release'; readonly keep: boolean }
  /** Closes all connections, so that nothing is left in the journal, and ends. */
  | { readonly type: 'end' }

/** What a worker opens. */
export interface OpenedDatabase {
  readonly id: string
  readonly path: string
  readonly settings: DatabaseSettings
  /** The memory of the `DatabaseBoard`. */
  readonly board: SharedArrayBuffer
  /** The number of a worker that only reads; null for the one that writes. */
  readonly reader: number | null
}

/** A call that runs on a stream. */
export type StreamCall = PipelineCall | CursorCall | DumpCall

export interface PipelineCall extends Call {
  readonly type: 'pipeline'
  readonly requests: readonly PipelineRequest[]
  readonly version: 2 | 3
}

export interface CursorCall extends Call {
  readonly type: 'cursor'
  readonly steps: readonly BatchStep[]
}

export interface DumpCall extends Call {
  readonly type: 'dump'
  readonly preserveRowIds: boolean
}

interface Call {
  readonly call: number
  readonly stream: number
  readonly permissions: Permissions
}

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
export type FromHost =
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
  /** The cursor's batch is acceptable; its lines follow as asked for. */
  | { readonly type: 'cursor-begin'; readonly call: number }
  | { readonly type: 'cursor-lines'; readonly call: number; readonly text: string }
