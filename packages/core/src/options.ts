import { CALL_OPTIONS, type RulesOf } from '@batonsql/options'
import { TRANSACTION_MODES, type TransactionMode } from './codec/control.ts'
import type { RowMode } from './codec/result.ts'

/** Settings of one call. */
export interface CallOptions {
  /** Aborts the call, which rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Time limit of the call in ms. @default the client's `requestTimeoutMs` */
  readonly timeoutMs?: number | undefined
}

/** Settings of one statement. */
export interface StatementOptions extends CallOptions {
  /** Declares the statement read-only, which permits retries. @default inferred from its text */
  readonly readOnly?: boolean | undefined
  /** Shape of the rows. @default 'object' */
  readonly rowMode?: RowMode | undefined
}

/** Settings of `readRows`. */
export interface RowsOptions extends StatementOptions {
  /** Called with the names of the columns, before the first row, and also if there is no row. */
  readonly onColumns?: ((names: readonly string[]) => void) | undefined
}

/** Settings of one batch. */
export interface BatchOptions extends StatementOptions {
  /**
   * How the transaction of the batch begins; ignored inside a transaction.
   * @default 'immediate', or 'deferred' if every statement is known to be read-only
   */
  readonly mode?: TransactionMode | undefined
}

/** Settings of a batch that is its own transaction. */
export interface AtomicBatchOptions extends BatchOptions {
  /**
   * `off` disables foreign key enforcement, as is necessary for rebuilding a table. Check the result yourself:
   * `pragma foreign_key_check`.
   * @default 'on'
   */
  readonly foreignKeys?: 'on' | 'off' | undefined
}

export const STATEMENT_OPTIONS: RulesOf<StatementOptions> = {
  ...CALL_OPTIONS,
  readOnly: 'boolean',
  rowMode: ['object', 'array'],
}
export const BATCH_OPTIONS: RulesOf<BatchOptions> = { ...STATEMENT_OPTIONS, mode: TRANSACTION_MODES }
