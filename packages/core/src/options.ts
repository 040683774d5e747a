import type { TransactionMode } from './codec/batch.ts'
import type { ArrayRow, ObjectRow, ResultSet, RowMode } from './codec/result.ts'
import type { InArgs, InStatement } from './codec/statement.ts'

/** Settings of one call. */
export interface CallOptions {
  /** Ends the call; it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Longest time for the call in ms. @default the client's `requestTimeoutMs` */
  readonly timeoutMs?: number | undefined
}

/** Settings of one statement. */
export interface StatementOptions extends CallOptions {
  /** That the statement changes nothing, so that it may be sent again; left out, its text tells. */
  readonly readOnly?: boolean | undefined
  /** Shape of the rows. @default 'object' */
  readonly rowMode?: RowMode | undefined
}

/** Settings of one batch. */
export interface BatchOptions extends StatementOptions {
  /**
   * How the batch's own transaction begins; without meaning inside a transaction.
   * @default 'immediate', or 'deferred' when every statement is certain to only read
   */
  readonly mode?: TransactionMode | undefined
}

/** What can run statements: a client, a stream or a transaction. */
export interface Executor {
  /**
   * Runs one statement.
   * @throws SqlError when the database refuses it; TypeError or RangeError, before anything is sent, for bad arguments
   */
  execute(
    statement: InStatement,
    args: InArgs | undefined,
    options: StatementOptions & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>>
  execute<Row = ObjectRow>(
    statement: InStatement,
    args?: InArgs,
    options?: StatementOptions,
  ): Promise<ResultSet<Row>>
  /**
   * Runs statements one after the other in one request; none after the first that fails.
   * @throws SqlError with `statementIndex` and the finished `results`
   */
  batch(
    statements: readonly InStatement[],
    options: BatchOptions & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>[]>
  batch<Row = ObjectRow>(
    statements: readonly InStatement[],
    options?: BatchOptions,
  ): Promise<ResultSet<Row>[]>
}
