/** A value as the engine takes and gives it. Text is a string, a blob bytes; an integer is always a bigint. */
export type EngineValue = null | bigint | number | string | Uint8Array

/** A statement of a request, decoded but with its SQL still by reference. */
export interface StatementRequest {
  readonly sql: string | null
  readonly sqlId: number | null
  readonly args: readonly EngineValue[]
  readonly namedArgs: readonly (readonly [name: string, value: EngineValue])[]
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
  | ({ readonly type: 'sequence' | 'describe' } & SqlReference)
  | { readonly type: 'store_sql'; readonly sqlId: number; readonly sql: string }
  | { readonly type: 'close_sql'; readonly sqlId: number }
  | { readonly type: 'get_autocommit' }
  | { readonly type: 'close' }

/** What the sender of a request may do with the database. */
export interface Permissions {
  readonly read: boolean
  readonly write: boolean
}
