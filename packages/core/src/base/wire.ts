// The JSON of the database API.

export type WireValue =
  | { readonly type: 'null' }
  | { readonly type: 'integer'; readonly value: string }
  | { readonly type: 'float'; readonly value: number | string | null }
  | { readonly type: 'text'; readonly value: string }
  | { readonly type: 'blob'; readonly base64: string }

export interface WireColumn {
  readonly name: string | null
  readonly decltype?: string | null
}

/** The codec's `RowText`: rows that are kept as text until they are decoded. */
interface UnreadRows {
  parse(): readonly (readonly WireValue[])[]
}

export interface WireResult {
  readonly cols: readonly WireColumn[]
  /** Kept as text if they are long. */
  readonly rows: readonly (readonly WireValue[])[] | UnreadRows
  readonly affected_row_count: number
  readonly last_insert_rowid?: string | null
  readonly replication_index?: string | number | null
  readonly rows_read?: number
  readonly rows_written?: number
  readonly query_duration_ms?: number
}

export interface WireError {
  readonly message: string
  readonly code?: string | null
  readonly extended_code?: string | null
}

export interface WireBatchResult {
  readonly step_results: readonly (WireResult | null)[]
  readonly step_errors: readonly (WireError | null)[]
  readonly replication_index?: string | number | null
}

export type WireStreamResult =
  | { readonly type: 'ok'; readonly response: { readonly type: string; readonly result?: unknown } }
  | { readonly type: 'error'; readonly error: WireError }

export interface WirePipelineResponse {
  readonly baton?: string | null
  readonly base_url?: string | null
  readonly results: readonly WireStreamResult[]
}
