import type { TableAction } from './table-actions.ts'

/** A value as the engine takes and gives it. Text is a string, a blob bytes; an integer is always a bigint. */
export type EngineValue = null | bigint | number | string | Uint8Array

/** A statement of a request, decoded but with its SQL still by reference. */
export interface StatementRequest {
  readonly sql: string | null
  readonly sqlId: number | null
  readonly args: readonly EngineValue[]
  readonly namedArgs: readonly (readonly [name: string, value: EngineValue])[]
  /** False where rows are not wanted, which only the cloud heeds. */
  readonly wantRows?: boolean
}

export type Condition =
  | { readonly type: 'ok' | 'error'; readonly step: number }
  | { readonly type: 'not'; readonly condition: Condition }
  | { readonly type: 'and' | 'or'; readonly conditions: readonly Condition[] }
  | { readonly type: 'is_autocommit' }

export interface BatchStep {
  readonly statement: StatementRequest
  readonly condition: Condition | null
}

export interface SqlReference {
  readonly sql: string | null
  readonly sqlId: number | null
}

/** One request of a pipeline. */
export type PipelineRequest =
  | { readonly type: 'execute'; readonly statement: StatementRequest }
  | { readonly type: 'batch'; readonly steps: readonly BatchStep[] }
  | ({ readonly type: 'sequence' } & SqlReference)
  | ({ readonly type: 'describe' } & SqlReference)
  | { readonly type: 'store_sql'; readonly sqlId: number; readonly sql: string }
  | { readonly type: 'close_sql'; readonly sqlId: number }
  | { readonly type: 'get_autocommit' }
  | { readonly type: 'close' }

/** What the sender of a request may do with the database. */
export interface Permissions {
  readonly read: boolean
  readonly write: boolean
  /** Whether it may change the schema of a database that shares one. */
  readonly changeSharedSchema: boolean
  /** Ids of the databases it may attach. */
  readonly attach: 'all' | readonly string[]
  /** What it may do with single tables; null = no further limits. */
  readonly tables: readonly TablePermission[] | null
  /** Whether blocks do not concern it: for migrations, while the database is blocked for everybody else. */
  readonly ignoresBlocks: boolean
}

/** What may be done with some tables, with the actions as tokens name them. */
export interface TablePermission {
  /** Names of tables, without regard for case; null = all. */
  readonly tables: readonly string[] | null
  readonly actions: readonly TableAction[]
}

/** A pipeline with what it runs under. */
export interface Pipeline {
  readonly requests: readonly PipelineRequest[]
  readonly version: 2 | 3
  readonly permissions: Permissions
}
