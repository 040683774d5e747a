import { checkOptions, type RulesOf } from '@batonsql/options'
import { withCallerStack } from '../base/with-caller-stack.ts'
import type { ArrayRow, ObjectRow, ResultSet } from '../codec/result.ts'
import {
  type EncodedStatement,
  encodeBatch,
  encodeStatement,
  type InArgs,
  type InStatement,
  rejectControl,
} from '../codec/statement.ts'
import { BATCH_OPTIONS, type BatchOptions, STATEMENT_OPTIONS, type StatementOptions } from '../options.ts'
import type { Results } from '../request/queued-call.ts'

/** Runs a checked statement, or the checked statements of a batch. Receives a copy of the options. */
type Run<Options> = (
  statements: EncodedStatement[],
  scope: 'autocommit' | 'atomic',
  options: Options,
) => Promise<Results>

/** Runs statements: a client, a stream or a transaction. */
export abstract class SqlExecutor<Options extends BatchOptions = BatchOptions> {
  readonly #run: Run<Options | StatementOptions>
  readonly #batchOptions: RulesOf<Options>
  readonly #check: (statement: EncodedStatement) => void

  /**
   * @internal
   * @param check rejects statements of `execute`; by default those that begin or end transactions
   */
  constructor(
    run: Run<Options | StatementOptions>,
    batchOptions: RulesOf<Options> = BATCH_OPTIONS as RulesOf<Options>,
    check = rejectControl,
  ) {
    this.#run = run
    this.#batchOptions = batchOptions
    this.#check = check
  }

  /** Runs one statement, and returns its rows as arrays. */
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
  async execute(
    statement: InStatement,
    args?: InArgs,
    options: StatementOptions = {},
  ): Promise<Results[number]> {
    checkOptions(options, STATEMENT_OPTIONS)
    const encoded = encodeStatement(statement, args)
    this.#check(encoded)
    try {
      return (await this.#run([encoded], 'autocommit', { ...options }))[0] as Results[number]
    } catch (error) {
      throw withCallerStack(error, [encoded])
    }
  }

  /** Like the next signature, but returns the rows as arrays. */
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
  async batch(
    statements: readonly InStatement[],
    options: Options | StatementOptions = {},
  ): Promise<Results> {
    checkOptions(options, this.#batchOptions)
    const encoded = encodeBatch(statements)
    try {
      return await this.#run(encoded, 'atomic', { ...options })
    } catch (error) {
      throw withCallerStack(error, encoded)
    }
  }
}

/** The methods of a client, a stream or a transaction that run statements. */
export interface Executor<Options extends BatchOptions = BatchOptions>
  extends Pick<SqlExecutor<Options>, 'execute' | 'batch'> {}
