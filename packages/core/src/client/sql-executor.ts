import { BATCH_OPTIONS, checkOptions, type OptionRules, STATEMENT_OPTIONS } from '../base/check-options.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import {
  type EncodedStatement,
  encodeBatch,
  encodeStatement,
  type InArgs,
  type InStatement,
  rejectControl,
} from '../codec/statement.ts'
import type { BatchOptions, Executor, StatementOptions } from '../options.ts'
import type { Results } from '../request/queued-call.ts'

/** Runs checked statements: a single one, or those of a batch. Receives a copy of the options. */
type Run<Options> = (
  statements: EncodedStatement[],
  scope: 'autocommit' | 'atomic',
  options: Options,
) => Promise<Results>

class ExecutorBase<Options extends BatchOptions> {
  readonly #run: Run<Options | StatementOptions>
  readonly #batchOptions: OptionRules
  readonly #check: (statement: EncodedStatement) => void

  constructor(
    run: Run<Options | StatementOptions>,
    batchOptions: OptionRules = BATCH_OPTIONS,
    check = rejectControl,
  ) {
    this.#run = run
    this.#batchOptions = batchOptions
    this.#check = check
  }

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

/** Implements `execute` and `batch` of clients, streams and transactions. `Executor` declares the overloads. */
export const SqlExecutor = ExecutorBase as unknown as new <Options extends BatchOptions = BatchOptions>(
  run: Run<Options | StatementOptions>,
  batchOptions?: OptionRules,
  /** Rejects statements of `execute`; by default those that begin or end transactions. */
  check?: (statement: EncodedStatement) => void,
) => Executor<Options>
