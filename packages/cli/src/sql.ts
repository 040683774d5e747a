import { createReadStream } from 'node:fs'
import { type Client, readRows } from '@batonsql/core'
import { openStream, type ScriptStatement, type Stream } from '@batonsql/core/adapter'
import { checkFile } from './check-file.ts'
import { type CommandContext, type CommandInput, print } from './command-context.ts'
import { isTarget, openDatabase, readTarget } from './database-address.ts'
import { runDotCommand, Session } from './dot-commands.ts'
import type { SQL_OPTIONS } from './option-table.ts'
import { runPrompt } from './prompt.ts'
import { readWholeText } from './read-text.ts'
import type { Mode } from './result-output.ts'
import { runStatements } from './run-statements.ts'
import { type ScriptSegment, splitScript } from './split-script.ts'
import { toStatementError } from './statement-error.ts'
import { UsageError } from './usage-error.ts'

/** Runs statements from the command line, a file or standard input; if that is a terminal, opens a prompt. */
export async function runSql({ values, operands, context }: CommandInput<typeof SQL_OPTIONS>): Promise<void> {
  const [firstOperand] = operands
  const maxOthers = operands.length === 1 && firstOperand !== undefined && isTarget(firstOperand) ? 0 : 1
  const { target, remaining } = readTarget(operands, maxOthers, context)
  const [statements] = remaining
  const { file, json = false, csv = false } = values
  if (json && csv) throw new UsageError('baton sql: pass either --json or --csv, not both')
  if (statements !== undefined && file !== undefined)
    throw new UsageError('baton sql: pass either statements or --file, not both')
  const isTerminal = context.input.isTTY === true && context.output.isTTY === true
  const isPrompt = statements === undefined && file === undefined && isTerminal
  if (isPrompt && (json || csv))
    throw new UsageError('baton sql: in the prompt, use .mode json or .mode csv instead of an option')
  // users are slower than programs: only the server's limit of 10 s applies, of which the prompt warns
  const timeoutOptions = isPrompt ? { transactionTimeoutMs: Infinity } : {}
  // with bigints for integers, a number is always a REAL, even if it is whole
  const db = openDatabase(target, values, context, { intMode: 'bigint', ...timeoutOptions })
  try {
    if (isPrompt) return await runPrompt(db, context)
    const script = statements ?? (await readScript(file, context))
    const textMode = csv ? 'csv' : 'table'
    const session = new ScriptSession(db, context, json ? 'json' : textMode)
    await session.run(script, file ?? null)
  } finally {
    await db.close()
  }
}

async function readScript(file: string | undefined, { input }: CommandContext): Promise<string> {
  if (file === undefined) return await readWholeText(input as AsyncIterable<Uint8Array>, 'the input')
  await checkFile(file)
  return await readWholeText(createReadStream(file), file)
}

/** Splits a script. @throws Error that names the file */
function parseScript(script: string, file: string | null): ScriptSegment[] {
  try {
    return splitScript(script)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new Error(file === null ? error.message : `${file}: ${error.message}`, { cause: error })
  }
}

/** Runs a script on one stream. */
class ScriptSession extends Session {
  readonly #stream: Stream
  #resultCount = 0
  /** Number of rows changed; null after a ROLLBACK, which has undone some of it. */
  #changedRows: number | null = 0
  #isExiting = false

  constructor(db: Client, context: CommandContext, mode: Mode) {
    super(db, context, mode)
    this.#stream = openStream(db)
  }

  /** @throws Error if the script leaves a transaction open, which is rolled back */
  async run(script: string, file: string | null): Promise<void> {
    try {
      await this.runScript(script, file)
      if (this.#stream.inTransaction)
        throw new Error('the last transaction was not committed, and was rolled back')
    } finally {
      await this.#stream.close()
    }
    const { stderr } = this.context
    if (this.#changedRows && stderr.isTTY)
      stderr.write(`${this.#changedRows} ${this.#changedRows === 1 ? 'row' : 'rows'} changed\n`)
  }

  get inTransaction(): boolean {
    return this.#stream.inTransaction
  }

  async onStream(work: (stream: Stream, signal: AbortSignal) => Promise<void>): Promise<void> {
    await work(this.#stream, this.context.signal)
  }

  async runScript(script: string, file: string | null): Promise<void> {
    for (const segment of parseScript(script, file)) {
      if (!('command' in segment)) await this.runTimed(() => this.#runStatements(segment.statements, file))
      else if ((await this.#runCommand(segment, file)) === 'exit') this.#isExiting = true
      if (this.#isExiting) return
    }
  }

  async #runCommand(
    { command, line }: Extract<ScriptSegment, { readonly command: string }>,
    file: string | null,
  ): Promise<'exit' | void> {
    try {
      return await runDotCommand(this, command)
    } catch (error) {
      this.context.signal.throwIfAborted()
      throw new Error(
        `${file === null ? 'line ' : `${file}:`}${line}: ${(error as Error).message.replace(/^baton: /, '')}`,
        { cause: error },
      )
    }
  }

  async #runStatements(statements: readonly ScriptStatement[], file: string | null): Promise<void> {
    const { rowFormat } = this.output
    if (rowFormat === null) return await this.#runAsResults(statements, file)
    for (const statement of statements) {
      if (/^(?:select|values|with)\b/i.test(statement.sql)) await this.#streamRows(statement, file)
      else await this.#runAsResults([statement], file)
    }
  }

  async #runAsResults(statements: readonly ScriptStatement[], file: string | null): Promise<void> {
    if (statements.some(({ sql }) => /^rollback\b/i.test(sql))) this.#changedRows = null
    await runStatements(this.#stream, statements, {
      signal: this.context.signal,
      file,
      onResult: async (result) => {
        if (this.#changedRows !== null) this.#changedRows += result.rowsAffected
        if (result.columns.length === 0) return
        if (this.#resultCount > 0 && this.output.rowFormat === null) await this.print('')
        await this.output.print(result)
        this.#resultCount += 1
      },
    })
  }

  /** Prints rows as they arrive, because a whole result has a maximum size. */
  async #streamRows(statement: ScriptStatement, file: string | null): Promise<void> {
    const format = this.output.rowFormat
    let columns: readonly string[] = []
    let header = ''
    const onColumns = (names: readonly string[]): void => {
      columns = names
      header = names.length === 0 ? '' : (format?.header(names) ?? '')
    }
    const options = { rowMode: 'array', signal: this.context.signal, onColumns } as const
    try {
      for await (const row of readRows(this.#stream, statement.sql, [], options)) {
        await print(this.context, header + (format?.row(row, columns) ?? ''))
        header = ''
      }
      await print(this.context, header)
    } catch (error) {
      throw toStatementError(error, statement, file)
    }
  }
}
