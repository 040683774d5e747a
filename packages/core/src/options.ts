import type { TransactionMode } from './codec/control.ts'
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
export interface Executor<Options extends BatchOptions = BatchOptions> {
  /**
   * Runs one statement.
   * @throws SqlError when the database refuses it; TypeError or RangeError, before anything is sent, for bad arguments
   */
  execute(
    statement: InStatement,
    args: InArgs | undefined,
    options: StatementOptions & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>>
  /**
   * Runs one statement.
   * @throws SqlError when the database refuses it; TypeError or RangeError, before anything is sent, for bad arguments
   */
  execute<Row = ObjectRow>(
    statement: InStatement,
    args?: InArgs,
    options?: StatementOptions,
  ): Promise<ResultSet<Row>>
  /**
   * Runs statements in one request; none after the first that fails. Outside a transaction they are one of their own: all
   * of them take effect, or none, and when they are certain to only read they do not wait for the write lock. Inside one,
   * what came before the failure stays. No statements, no request.
   * @throws SqlError with `statementIndex`, and the `results` up to it
   */
  batch(
    statements: readonly InStatement[],
    options: Options & { readonly rowMode: 'array' },
  ): Promise<ResultSet<ArrayRow>[]>
  /**
   * Runs statements in one request; none after the first that fails. Outside a transaction they are one of their own: all
   * of them take effect, or none, and when they are certain to only read they do not wait for the write lock. Inside one,
   * what came before the failure stays. No statements, no request.
   * @throws SqlError with `statementIndex`, and the `results` up to it
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
  /** The same, with one type for the rows of all. */
  batch<Row>(statements: readonly InStatement[], options?: Options): Promise<ResultSet<Row>[]>
}
