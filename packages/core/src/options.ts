import type { TransactionMode } from './codec/control.ts'
import type { ArrayRow, ObjectRow, ResultSet, RowMode } from './codec/result.ts'
import type { InArgs, InStatement } from './codec/statement.ts'

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

/** Runs statements: a client, a stream or a transaction. */
export interface Executor<Options extends BatchOptions = BatchOptions> {
  /**
   * Runs one statement.
   * @throws SqlError if the database rejects it; TypeError or RangeError, before anything is sent, for invalid arguments
   */
  execute(
    statement: InStatement,
    args: InArgs | undefined,
    options: StatementOptions & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>>
  /**
   * Runs one statement.
   * @throws SqlError if the database rejects it; TypeError or RangeError, before anything is sent, for invalid arguments
   */
  execute<Row = ObjectRow>(
    statement: InStatement,
    args?: InArgs,
    options?: StatementOptions,
  ): Promise<ResultSet<Row>>
  /**
   * Runs statements in one request and stops at the first failure. Outside of a transaction they are their own transaction:
   * all of them are applied, or none; if all are known to be read-only, they do not wait for the write lock. Inside a transaction,
   * earlier changes remain after a failure. An empty batch sends no request.
   * @throws SqlError with `statementIndex` and the `results` before it
   */
  batch(
    statements: readonly InStatement[],
    options: Options & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>[]>
  /**
   * Runs statements in one request and stops at the first failure. Outside of a transaction they are their own transaction:
   * all of them are applied, or none; if all are known to be read-only, they do not wait for the write lock. Inside a transaction,
   * earlier changes remain after a failure. An empty batch sends no request.
   * @throws SqlError with `statementIndex` and the `results` before it
   */
  batch<const Statements extends readonly InStatement[]>(
    statements: Statements,
    options?: Options,
  ): Promise<{ -readonly [At in keyof Statements]: ResultSet }>
  /** The same, with the type of each statement's rows: `batch<[Person, Total]>([…, …])`. */
  batch<Rows extends readonly unknown[]>(
    statements: { readonly [At in keyof Rows]: InStatement },
    options?: Options,
  ): Promise<{ -readonly [At in keyof Rows]: ResultSet<Rows[At]> }>
  /** The same, with one row type for all statements. */
  batch<Row>(statements: readonly InStatement[], options?: Options): Promise<ResultSet<Row>[]>
}
