import type { TableAction } from './table-actions.ts'

/** An engine value: text is a string, a blob is bytes, an integer is always a bigint. */
export type EngineValue = null | bigint | number | string | Uint8Array

/** The state of the primary that a replica must have reached before it executes a request. A primary ignores it. */
export interface AwaitedIndex {
  /** A replication index in decimal digits; undefined to execute the request in any state. */
  readonly replicationIndex?: string | undefined
}

/** SQL text, or the number of a text that the client has stored on the stream. Exactly one is not null in a valid request. */
export interface SqlReference {
  readonly sql: string | null
  readonly sqlId: number | null
}

/** A decoded statement. */
export interface StatementRequest extends SqlReference, AwaitedIndex {
  readonly args: readonly EngineValue[]
  readonly namedArgs: readonly (readonly [name: string, value: EngineValue])[]
  /** False to omit the rows; supported only by the `cloud` dialect. */
  readonly wantRows?: boolean | undefined
}

/** Condition of a step. `ok` and `error` refer to the outcome of an earlier step, by its index; a skipped step counts as an error. */
export type Condition =
  | { readonly type: 'ok' | 'error'; readonly step: number }
  | { readonly type: 'not'; readonly condition: Condition }
  | { readonly type: 'and' | 'or'; readonly conditions: readonly Condition[] }
  | { readonly type: 'is_autocommit' }

/** A step of a batch. It is skipped if its condition is false; null always executes it. */
export interface BatchStep {
  readonly statement: StatementRequest
  readonly condition: Condition | null
}

/** An operation of a pipeline. */
export type PipelineRequest =
  | { readonly type: 'execute'; readonly statement: StatementRequest }
  | ({ readonly type: 'batch'; readonly steps: readonly BatchStep[] } & AwaitedIndex)
  | ({ readonly type: 'sequence' } & SqlReference & AwaitedIndex)
  | ({ readonly type: 'describe' } & SqlReference & AwaitedIndex)
  | { readonly type: 'store_sql'; readonly sqlId: number; readonly sql: string }
  | { readonly type: 'close_sql'; readonly sqlId: number }
  | { readonly type: 'get_autocommit' }
  | { readonly type: 'close' }

/** Permissions of the sender of a request for a database. Every sender may read, except for limits of `tables`. */
export interface Permissions {
  readonly write: boolean
  /** Whether the sender may change the schema of a database with a shared schema. */
  readonly changeSharedSchema: boolean
  /** Ids of the databases that the sender may attach. */
  readonly attach: 'all' | readonly string[]
  /** Permissions for tables; null for no further limits. */
  readonly tables: readonly TablePermission[] | null
  /** Whether blocks do not apply: a migration runs while the database is blocked for other requests. */
  readonly ignoresBlocks: boolean
}

/** Permissions for tables, with actions as in tokens. */
export interface TablePermission {
  /** Case-insensitive names of tables; null for all. */
  readonly tables: readonly string[] | null
  readonly actions: readonly TableAction[]
}

/** The operations of an HTTP request, which run one after the other on one stream. */
export interface Pipeline {
  readonly requests: readonly PipelineRequest[]
  readonly version: 2 | 3
  readonly permissions: Permissions
}
