import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import {
  type ArrayRow,
  type Client,
  openStream,
  type ResultSet,
  readRows,
  type ScriptStatement,
  SqlError,
  type Stream,
  splitStatements,
  type Value,
} from '@batonsql/core'
import { type CommandContext, type CommandInput, getStyle, print } from './command-context.ts'
import { isTarget, openDatabase, readTarget } from './database-address.ts'
import type { SQL_OPTIONS } from './option-table.ts'
import { runPrompt } from './prompt.ts'
import { formatJson, formatTable } from './result-text.ts'
import { runStatements } from './run-statements.ts'
import { StatementError } from './statement-error.ts'
import { UsageError } from './usage-error.ts'

/** Runs statements from the command line, a file or standard input; if that is a terminal, opens a prompt. */
export async function runSql({ values, operands, context }: CommandInput<typeof SQL_OPTIONS>): Promise<void> {
  const [firstOperand] = operands
  const maxOthers = operands.length === 1 && firstOperand !== undefined && isTarget(firstOperand) ? 0 : 1
  const { target, remaining } = readTarget(operands, maxOthers, context)
  const [statements] = remaining
  const { file, json = false } = values
  if (statements !== undefined && file !== undefined)
    throw new UsageError('baton sql: pass either statements or --file, not both')
  const isTerminal = context.input.isTTY === true && context.output.isTTY === true
  const isPrompt = statements === undefined && file === undefined && isTerminal
  if (isPrompt && json) throw new UsageError('baton sql: --json is not available in the prompt')
  // users are slower than programs, and the prompt itself applies the server's limit of 10 s
  const timeoutOptions = isPrompt ? { transactionTimeoutMs: Infinity } : {}
  // with bigints for integers, a number is always a REAL, even if it is whole
  const db = openDatabase(target, values, context, { intMode: 'bigint', ...timeoutOptions })
  try {
    if (isPrompt) return await runPrompt(db, context)
    const script = statements ?? (await (file === undefined ? text(context.input) : readScript(file)))
    const run = json ? runAsJson : runAsTables
    await run(db, parseScript(script, file ?? null), { context, file: file ?? null })
  } finally {
    await db.close()
  }
}

/** Options for running a script. */
interface ScriptOptions {
  readonly context: CommandContext
  readonly file: string | null
}

async function readScript(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new UsageError(`baton sql: ${(error as Error).message}`)
  }
}

function parseScript(script: string, file: string | null): ScriptStatement[] {
  try {
    return splitStatements(script)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new Error(file === null ? error.message : `${file}: ${error.message}`, { cause: error })
  }
}

async function runAsTables(
  db: Client,
  statements: readonly ScriptStatement[],
  { context, file }: ScriptOptions,
): Promise<void> {
  const { signal, stderr } = context
  const style = getStyle(context)
  let tableCount = 0
  let changedRows = 0
  await withStream(db, async (stream) => {
    await runStatements(stream, statements, {
      signal,
      file,
      onResult: async (result) => {
        changedRows += result.rowsAffected
        const table = formatTable(result, style)
        if (table === '') return
        await print(context, tableCount > 0 ? `\n${table}` : table)
        tableCount += 1
      },
    })
  })
  if (changedRows > 0 && stderr.isTTY)
    stderr.write(`${changedRows} ${changedRows === 1 ? 'row' : 'rows'} changed\n`)
}

async function runAsJson(
  db: Client,
  statements: readonly ScriptStatement[],
  { context, file }: ScriptOptions,
): Promise<void> {
  const { signal } = context
  const printRows = async ({ columns, rows }: ResultSet<ArrayRow>): Promise<void> => {
    for (const row of rows)
      await print(
        context,
        formatJson(Object.fromEntries(columns.map((name, index) => [name, row[index] as Value]))),
      )
  }
  await withStream(db, async (stream) => {
    for (const statement of statements) {
      if (!/^(?:select|values|with)\b/i.test(statement.sql)) {
        await runStatements(stream, [statement], { signal, file, onResult: printRows })
        continue
      }
      // streamed without a limit, because a whole result has a maximum size
      try {
        for await (const row of readRows(stream, statement.sql, [], { signal }))
          await print(context, formatJson(row))
      } catch (error) {
        throw error instanceof SqlError ? new StatementError(error, statement, file) : error
      }
    }
  })
}

/** Runs a script on one stream. @throws Error if it leaves a transaction open, which is rolled back */
async function withStream(db: Client, run: (stream: Stream) => Promise<void>): Promise<void> {
  const stream = openStream(db)
  try {
    await run(stream)
    if (stream.inTransaction) throw new Error('the last transaction was not committed, and was rolled back')
  } finally {
    await stream.close()
  }
}
