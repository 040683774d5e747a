import {
  type EncodedStatement,
  encodeBatch,
  encodeStatement,
  type InArgs,
  type InStatement,
  refuseControl,
} from './codec/statement.ts'
import type { BatchOptions, Executor, StatementOptions } from './options.ts'
import type { Results } from './stream/queued-call.ts'

/** Runs statements that were checked: one by itself, or those of a batch. */
type Run<Options> = (
  statements: EncodedStatement[],
  scope: 'alone' | 'atomic',
  options: Options,
) => Promise<Results>

class Base<Options extends BatchOptions> {
  readonly #run: Run<Options | StatementOptions>
  readonly #check: (sql: string) => void

  constructor(run: Run<Options | StatementOptions>, check = refuseControl) {
    this.#run = run
    this.#check = check
  }

  async execute(
    statement: InStatement,
    args?: InArgs,
    options: StatementOptions = {},
  ): Promise<Results[number]> {
    const encoded = encodeStatement(statement, args)
    this.#check(encoded.sql)
    return (await this.#run([encoded], 'alone', options))[0] as Results[number]
  }

  async batch(statements: readonly InStatement[], options?: Options): Promise<Results> {
    return await this.#run(encodeBatch(statements), 'atomic', options ?? {})
  }
}

/** What `execute` and `batch` are wherever they can be called. The overloads are stated in `Executor`. */
export const SqlExecutor = Base as unknown as new <Options extends BatchOptions = BatchOptions>(
  run: Run<Options | StatementOptions>,
  /** Refuses a statement of `execute`: those that begin and end transactions, if not said otherwise. */
  check?: (sql: string) => void,
) => Executor<Options>
