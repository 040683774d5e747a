import { createInterface, type Interface } from 'node:readline/promises'
import {
  type ArrayRow,
  type Client,
  DatabaseError,
  HttpError,
  ProtocolError,
  type ResultSet,
  serverVersion,
} from '@batonsql/core'
import { openStream, type ScriptStatement, type Stream, statementKind } from '@batonsql/core/adapter'
import type { CommandContext } from './command-context.ts'
import { describeError } from './describe-error.ts'
import { isDotCommand, runDotCommand, Session } from './dot-commands.ts'
import { HISTORY_SIZE, historyPath, readHistory, writeHistory } from './history-file.ts'
import { complete } from './prompt-completer.ts'
import { isTransactionControl, runStatements } from './run-statements.ts'
import { splitComplete, splitScript } from './split-script.ts'
import { StatementError } from './statement-error.ts'

/** Time without a statement after which the server closes a stream and rolls its transaction back. */
const IDLE_MS = 10_000

/** Reads statements from a terminal and runs them, until the input ends. */
export async function runPrompt(db: Client, context: CommandContext): Promise<void> {
  const path = historyPath(context.env)
  const lines = createInterface({
    input: context.input,
    output: context.output,
    terminal: true,
    history: readHistory(path),
    historySize: HISTORY_SIZE,
    removeHistoryDuplicates: true,
    completer: (line: string) => complete(db, line),
  })
  lines.on('history', (history) => writeHistory(path, history))
  const prompt = new Prompt(db, context, lines)
  try {
    await prompt.run()
  } finally {
    lines.close()
    await prompt.close()
  }
}

class Prompt extends Session {
  readonly #lines: Interface
  /** The beginning of an incomplete statement. */
  #buffer = ''
  /** The stream of an open transaction; null if there is none. */
  #stream: Stream | null = null
  /** Whether the server has begun the transaction. BEGIN is sent with the first statement. */
  #hasBegun = false
  /** The statements that are running, or ran last. */
  #statements: readonly ScriptStatement[] = []
  /** Aborts the running statement. */
  #runController: AbortController | null = null
  #isExiting = false
  #timers: NodeJS.Timeout[] = []

  constructor(db: Client, context: CommandContext, lines: Interface) {
    super(db, context, 'table')
    this.#lines = lines
    lines.on('SIGINT', () => this.#cancel())
    context.signal.addEventListener('abort', () => lines.close(), { once: true })
  }

  async run(): Promise<void> {
    const version = await serverVersion(this.db).catch((error: unknown) => {
      // some services lack this route, and the first statement reports an invalid token
      if (error instanceof HttpError || error instanceof ProtocolError) return 'Connected'
      throw error
    })
    await this.print(`${version}. Statements end with ; and .help shows help.`)
    this.#showPrompt()
    for await (const line of this.#lines) {
      await this.#handleLine(line).catch((error: unknown) => this.#report(error))
      if (this.#isExiting) return
      this.#showPrompt()
    }
    await this.print('')
  }

  async close(): Promise<void> {
    this.#stopTimers()
    if (this.#stream) await this.print('The open transaction was rolled back.')
    await this.#stream?.close()
  }

  /** Shows the prompt, and the line being typed if it is kept. */
  #showPrompt(keepsLine = false): void {
    const name = this.#stream ? 'baton*' : 'baton'
    this.#lines.setPrompt(this.#buffer === '' ? `${name}> ` : `${'...'.padStart(name.length)}> `)
    this.#lines.prompt(keepsLine)
  }

  get inTransaction(): boolean {
    return this.#stream !== null
  }

  override async print(line: string): Promise<void> {
    if (!this.context.signal.aborted) await super.print(line)
  }

  async #report(error: unknown): Promise<void> {
    this.context.signal.throwIfAborted()
    await this.print(describeError(error).replace(/^baton: /, ''))
  }

  /** Handles Ctrl-C. */
  #cancel(): void {
    if (this.#runController) {
      this.#runController.abort()
      return
    }
    // first to the end of the line, because `u` clears only what is before the cursor; earlier lines stay visible
    this.#lines.write(null, { ctrl: true, name: 'e' })
    this.context.output.write('^C\n')
    this.#lines.write(null, { ctrl: true, name: 'u' })
    this.#buffer = ''
    this.#showPrompt()
  }

  async #handleLine(line: string): Promise<void> {
    if (this.#buffer === '' && isDotCommand(line)) return await this.#runCommand(line)
    this.#buffer += `${line}\n`
    if (this.#buffer.trim() === '') this.#buffer = ''
    const statements = splitComplete(this.#buffer)
    if (statements === null) return
    this.#buffer = ''
    await this.#run(statements, null)
  }

  async #runCommand(line: string): Promise<void> {
    // reads count as the first statement of a transaction
    this.#hasBegun ||= this.#stream !== null
    if ((await runDotCommand(this, line)) === 'exit') this.#isExiting = true
  }

  async runScript(script: string, file: string): Promise<void> {
    for (const segment of splitScript(script)) {
      if ('command' in segment) await this.#runCommand(segment.command)
      else await this.#run(segment.statements, file)
      if (this.#isExiting) return
    }
  }

  async #run(statements: readonly ScriptStatement[], file: string | null): Promise<void> {
    let results = 0
    const onResult = async (result: ResultSet<ArrayRow>): Promise<void> => {
      this.#hasBegun ||= !isTransactionControl((statements[results] as ScriptStatement).sql)
      results += 1
      const { columns, rows, rowsAffected } = result
      await this.output.print(result)
      if (columns.length > 0 && this.output.rowFormat === null) await this.print(`(${count(rows.length)})`)
      else if (rowsAffected > 0) await this.print(`${count(rowsAffected)} changed`)
    }
    await this.onStream(async (stream, signal) => {
      const wasOpen = stream.inTransaction
      this.#statements = statements
      try {
        await this.runTimed(() => runStatements(stream, statements, { signal, file, onResult }))
      } catch (error) {
        this.#hasBegun ||= error instanceof StatementError && error.isParsed
        throw error
      }
      if (!wasOpen && stream.inTransaction)
        await this.print(
          `A transaction is open; COMMIT keeps its changes. It is rolled back after ${IDLE_MS / 1_000} s without a statement.`,
        )
    })
  }

  async onStream(work: (stream: Stream, signal: AbortSignal) => Promise<void>): Promise<void> {
    this.#stopTimers()
    this.#statements = []
    const stream = this.#stream ?? openStream(this.db)
    this.#runController = new AbortController()
    const signal = AbortSignal.any([this.#runController.signal, this.context.signal])
    try {
      await work(stream, signal)
    } catch (error) {
      // a failed statement does not end the transaction
      const hasEnded = this.#stream && !(error instanceof StatementError) && !stream.inTransaction
      if (hasEnded && !this.#mayHaveCommitted(error)) await this.print('The transaction was rolled back.')
      throw this.#runController.signal.aborted ? new Error(this.#describeCancellation()) : error
    } finally {
      this.#runController = null
      this.#stream = stream.inTransaction ? stream : null
      this.#hasBegun &&= this.#stream !== null
      if (this.#stream) this.#startTimers(stream)
      else await stream.close()
    }
  }

  /** Whether a COMMIT may have taken effect although its response is missing. */
  #mayHaveCommitted(error: unknown): boolean {
    // the error after an abort has no outcome
    if (error instanceof DatabaseError) return error.outcome === 'unknown'
    return this.#isCommitting
  }

  get #isCommitting(): boolean {
    return this.#statements.some(({ sql }) => statementKind(sql) === 'commit')
  }

  /** The server may complete a statement whose request was aborted. */
  #describeCancellation(): string {
    const isWriting =
      this.#stream === null && this.#statements.some(({ sql }) => statementKind(sql) !== 'read')
    return isWriting || this.#isCommitting
      ? 'Canceled. It is unknown whether the changes were applied.'
      : 'Canceled.'
  }

  /** Warns before the open transaction times out, and reports when it has timed out. */
  #startTimers(stream: Stream): void {
    if (!this.#hasBegun) return
    const { expiresAt } = stream
    const remaining = expiresAt === null ? 0 : expiresAt - Date.now()
    if (remaining > 0)
      this.#setTimer(remaining, () =>
        this.#showNotice(
          'A waiting writer can now take over the write lock, which rolls the transaction back: COMMIT soon.',
        ),
      )
    this.#setTimer(IDLE_MS, () => {
      this.#stream = null
      void stream.close()
      this.#showNotice(`The transaction was rolled back: no statement for ${IDLE_MS / 1_000} s.`)
    })
  }

  #setTimer(ms: number, run: () => void): void {
    this.#timers.push(setTimeout(run, ms))
  }

  #stopTimers(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers = []
  }

  /** Prints a notice above the line being typed. */
  #showNotice(text: string): void {
    this.context.output.write(`\r\u001b[K${text}\n`)
    this.#showPrompt(true)
  }
}

const count = (rows: number): string => `${rows} ${rows === 1 ? 'row' : 'rows'}`
