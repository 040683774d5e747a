import { createInterface, type Interface } from 'node:readline/promises'
import {
  type Client,
  HttpError,
  openStream,
  type ScriptStatement,
  type Stream,
  serverVersion,
  splitStatements,
} from '@batonsql/core'
import { type CommandContext, getStyle, print } from './command-context.ts'
import { describeError } from './describe-error.ts'
import { escapeLines } from './escape-controls.ts'
import { HISTORY_SIZE, historyPath, readHistory, writeHistory } from './history-file.ts'
import { formatLines, formatTable } from './result-text.ts'
import { isControl, runStatements } from './run-statements.ts'
import { StatementError } from './statement-error.ts'

/** Time without a statement after which the server closes a stream and rolls its transaction back. */
const IDLE_MS = 10_000

const HELP = `Statements end with a semicolon and may span several lines. BEGIN opens a transaction for the statements that follow.
  .tables          tables and views
  .schema [TABLE]  the statements that created them
  .mode line       a line for each value, for rows that are too wide; .mode table switches back
  .quit            leave (also quit, exit or Ctrl-D); an open transaction is rolled back
Ctrl-C cancels the input, or the running statement.`

const DOT_COMMANDS: Readonly<
  Record<string, { readonly sql: string; readonly args: (name?: string) => string[] }>
> = {
  '.tables': {
    sql: `select name from sqlite_schema where type in ('table', 'view')
      and name not like 'sqlite\\_%' escape '\\' and name not like 'libsql\\_%' escape '\\'
      and name not like '\\_\\_turso\\_internal\\_%' escape '\\' order by name`,
    args: () => [],
  },
  '.schema': {
    sql: `select sql || ';' from sqlite_schema where sql is not null and tbl_name like ? order by rowid`,
    args: (name = '%') => [name],
  },
}

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

class Prompt {
  readonly #db: Client
  readonly #context: CommandContext
  readonly #lines: Interface
  /** The beginning of an incomplete statement. */
  #buffer = ''
  /** The stream of an open transaction; null if there is none. */
  #stream: Stream | null = null
  /** Whether the server has begun the transaction. BEGIN is sent with the first statement. */
  #hasBegun = false
  /** Aborts the running statement. */
  #runController: AbortController | null = null
  #isExiting = false
  #usesLineMode = false
  #timers: NodeJS.Timeout[] = []

  constructor(db: Client, context: CommandContext, lines: Interface) {
    this.#db = db
    this.#context = context
    this.#lines = lines
    lines.on('SIGINT', () => this.#cancel())
    context.signal.addEventListener('abort', () => lines.close(), { once: true })
  }

  async run(): Promise<void> {
    const version = await serverVersion(this.#db).catch((error: unknown) => {
      // some services lack this route, and the first statement reports an invalid token
      if (error instanceof HttpError) return 'Connected'
      throw error
    })
    await this.#print(`${version}. Statements end with ; and .help shows help.`)
    this.#showPrompt()
    for await (const line of this.#lines) {
      await this.#handleLine(line).catch((error: unknown) => this.#report(error))
      if (this.#isExiting) return
      this.#showPrompt()
    }
    await this.#print('')
  }

  async close(): Promise<void> {
    this.#stopTimers()
    if (this.#stream) await this.#print('The open transaction was rolled back.')
    await this.#stream?.close()
  }

  /** Shows the prompt, and the line being typed if it is kept. */
  #showPrompt(keepsLine = false): void {
    const name = this.#stream ? 'baton*' : 'baton'
    this.#lines.setPrompt(this.#buffer === '' ? `${name}> ` : `${'...'.padStart(name.length)}> `)
    this.#lines.prompt(keepsLine)
  }

  async #print(text: string): Promise<void> {
    if (!this.#context.signal.aborted) await print(this.#context, `${text}\n`)
  }

  async #report(error: unknown): Promise<void> {
    this.#context.signal.throwIfAborted()
    const isCanceled = this.#runController?.signal.aborted === true
    await this.#print(isCanceled ? 'Canceled.' : describeError(error).replace(/^baton: /, ''))
  }

  /** Handles Ctrl-C. */
  #cancel(): void {
    if (this.#runController) {
      this.#runController.abort()
      return
    }
    // earlier lines of the input stay visible; the current line is cleared on both sides of the cursor
    this.#lines.write(null, { ctrl: true, name: 'e' })
    this.#context.output.write('^C\n')
    this.#lines.write(null, { ctrl: true, name: 'u' })
    this.#buffer = ''
    this.#showPrompt()
  }

  async #handleLine(line: string): Promise<void> {
    if (this.#buffer === '' && /^\s*(\.|(exit|quit)\s*;?\s*$)/i.test(line))
      return await this.#runDotCommand(line.trim())
    this.#buffer += `${line}\n`
    if (this.#buffer.trim() === '') this.#buffer = ''
    const statements = completeStatements(this.#buffer)
    if (statements === null) return
    this.#buffer = ''
    await this.#runOnStream((stream, signal) => this.#runAll(stream, statements, signal))
  }

  async #runDotCommand(line: string): Promise<void> {
    const [word = '', name] = line.replace(/;$/, '').split(/\s+/)
    if (/^\.?(quit|exit)$/i.test(word)) {
      this.#isExiting = true
      return
    }
    if (word === '.help') return await this.#print(HELP)
    if (word === '.mode') {
      if (name !== 'line' && name !== 'table') return await this.#print('Modes: line, table')
      this.#usesLineMode = name === 'line'
      return
    }
    const dotCommand = Object.hasOwn(DOT_COMMANDS, word) ? DOT_COMMANDS[word] : undefined
    if (!dotCommand) return await this.#print(`Unknown command ${word}; see .help.`)
    this.#hasBegun = true
    await this.#runOnStream(async (stream, signal) => {
      const { rows } = await stream.execute(dotCommand.sql, dotCommand.args(name), {
        rowMode: 'array',
        signal,
      })
      for (const [text] of rows) await this.#print(escapeLines(String(text)))
    })
  }

  async #runAll(stream: Stream, statements: readonly ScriptStatement[], signal: AbortSignal): Promise<void> {
    const style = getStyle(this.#context)
    const wasOpen = stream.inTransaction
    this.#hasBegun ||= statements.some(({ sql }) => !isControl(sql))
    await runStatements(stream, statements, {
      signal,
      file: null,
      onResult: async (result) => {
        const { columns, rows, rowsAffected } = result
        const output = this.#usesLineMode ? formatLines(result) : formatTable(result, style)
        if (columns.length > 0) await this.#print(`${output}(${count(rows.length)})`)
        else if (rowsAffected > 0) await this.#print(`${count(rowsAffected)} changed`)
      },
    })
    if (!wasOpen && stream.inTransaction)
      await this.#print(
        `A transaction is open; COMMIT keeps its changes. It is rolled back after ${IDLE_MS / 1_000} s without a statement.`,
      )
  }

  /** Runs work on the stream of the open transaction, or on a separate one. */
  async #runOnStream(work: (stream: Stream, signal: AbortSignal) => Promise<void>): Promise<void> {
    this.#stopTimers()
    const stream = this.#stream ?? openStream(this.#db)
    this.#runController = new AbortController()
    const signal = AbortSignal.any([this.#runController.signal, this.#context.signal])
    try {
      await work(stream, signal)
    } catch (error) {
      // a failed statement does not end the transaction
      if (this.#stream && !(error instanceof StatementError) && !stream.inTransaction)
        await this.#print('The transaction was rolled back.')
      await this.#report(error)
    } finally {
      this.#runController = null
      this.#stream = stream.inTransaction ? stream : null
      this.#hasBegun &&= this.#stream !== null
      if (this.#stream) this.#startTimers(stream)
      else await stream.close()
    }
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
    this.#context.output.write(`\r\u001b[K${text}\n`)
    this.#showPrompt(true)
  }
}

const count = (rows: number): string => `${rows} ${rows === 1 ? 'row' : 'rows'}`

/** Returns the statements of the input; null if it is incomplete: it does not end with a semicolon, or a quote is open. */
function completeStatements(input: string): ScriptStatement[] | null {
  try {
    const statements = splitStatements(input)
    // a word after the input begins another statement only if the last one is complete
    return splitStatements(`${input}\nx`).length > statements.length ? statements : null
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}
