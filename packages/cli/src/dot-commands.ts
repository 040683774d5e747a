import { createReadStream } from 'node:fs'
import { realpath } from 'node:fs/promises'
import type { Client } from '@batonsql/core'
import type { Stream } from '@batonsql/core/adapter'
import { checkFile } from './check-file.ts'
import { type CommandContext, print } from './command-context.ts'
import { textFor } from './escape-controls.ts'
import { readWholeText } from './read-text.ts'
import { MODES, type Mode, ResultOutput } from './result-output.ts'

/** What dot commands use: the prompt, or a script. */
export abstract class Session {
  readonly db: Client
  readonly context: CommandContext
  readonly output: ResultOutput
  /** Whether the time of each statement is printed. */
  showsTimer = false
  /** Paths of the scripts that are being run. */
  readonly openScripts = new Set<string>()

  constructor(db: Client, context: CommandContext, mode: Mode) {
    this.db = db
    this.context = context
    this.output = new ResultOutput(context, mode)
  }

  abstract get inTransaction(): boolean
  /** Runs work on the stream of the open transaction, or on a separate one. */
  abstract onStream(work: (stream: Stream, signal: AbortSignal) => Promise<void>): Promise<void>
  /** Runs the statements and dot commands of a script. */
  abstract runScript(script: string, file: string): Promise<void>

  /** Prints a line. */
  async print(line: string): Promise<void> {
    await print(this.context, `${line}\n`)
  }

  /** Runs statements, and prints the time that they took if requested. */
  protected async runTimed(run: () => Promise<void>): Promise<void> {
    const startedAt = performance.now()
    await run()
    if (this.showsTimer) await this.print(`${((performance.now() - startedAt) / 1_000).toFixed(3)} s`)
  }
}

interface DotCommand {
  readonly operands: string
  readonly help: string
  /** @returns 'exit' to leave */
  readonly run: (session: Session, args: readonly string[]) => Promise<'exit' | void>
}

/** Condition for tables of the user: excludes those of SQLite, libSQL and Turso's engine. */
const IS_USER_TABLE = `name not like 'sqlite\\_%' escape '\\' and name not in ('libsql_vector_meta_shadow', 'libsql_wasm_func_table')
  and name not like '\\_\\_turso\\_internal\\_%' escape '\\'`
const TABLES = `select name from sqlite_schema where type in ('table', 'view') and ${IS_USER_TABLE} order by name`
/**
 * Statements of the table ?1 and of its indexes and triggers. If ?1 is null, those of all tables except the tables of SQLite and libSQL,
 * and those that are created together with a virtual table or a vector index.
 */
const SCHEMA = `select sql from sqlite_schema as s where sql is not null
  and (tbl_name = ?1 collate nocase or ?1 is null and tbl_name not like 'sqlite\\_%' escape '\\'
    and tbl_name not in ('libsql_vector_meta_shadow', 'libsql_wasm_func_table') and tbl_name not in (select name from pragma_table_list where type = 'shadow')
    and not exists (select 1 from sqlite_schema as i where i.sql like '%libsql_vector_idx%' and s.tbl_name = i.name || '_shadow'))
  order by rowid`

const COMMANDS: Readonly<Record<string, DotCommand>> = {
  '.tables': {
    operands: '',
    help: 'tables and views',
    run: async (session) => void (await printTexts(session, TABLES, [])),
  },
  '.schema': {
    operands: '[TABLE]',
    help: 'the statements that created them',
    run: async (session, [name]) => {
      const count = await printTexts(session, SCHEMA, [name ?? null], endStatement)
      if (count === 0 && name !== undefined) throw new Error(`there is no table or view ${name}`)
    },
  },
  '.mode': {
    operands: MODES.join('|'),
    help: 'how results are printed',
    run: async ({ output }, [name]) => {
      const mode = MODES.find((candidate) => candidate === name)
      if (mode === undefined) throw new Error(`unknown mode ${name ?? ''}; the modes are ${MODES.join(', ')}`)
      output.mode = mode
    },
  },
  '.headers': {
    operands: 'on|off',
    help: 'whether the names of the columns are printed',
    run: async ({ output }, [word]) => {
      output.showsHeaders = readOnOff('.headers', word)
    },
  },
  '.timer': {
    operands: 'on|off',
    help: 'whether the time of each statement is printed',
    run: async (session, [word]) => {
      session.showsTimer = readOnOff('.timer', word)
    },
  },
  '.read': {
    operands: 'FILE',
    help: 'run the statements and dot commands in a file',
    run: async (session, [file]) => {
      if (file === undefined) throw new Error('.read needs a FILE')
      await checkFile(file)
      // a pipe, such as /dev/stdin, has no path; it can be read only once anyway
      const path = await realpath(file).catch(() => file)
      const { openScripts } = session
      if (openScripts.has(path)) throw new Error(`${file} is already being run`)
      openScripts.add(path)
      try {
        await session.runScript(await readWholeText(createReadStream(file), file), file)
      } finally {
        openScripts.delete(path)
      }
    },
  },
  '.import': {
    operands: 'FILE.csv TABLE',
    help: 'import a CSV file with a header row, as `baton import` does',
    run: async (session, [file, table]) => {
      if (file === undefined || table === undefined) throw new Error('.import needs FILE.csv and TABLE')
      if (session.inTransaction) throw new Error('.import has its own transactions: COMMIT or ROLLBACK first')
      const { importFile } = await import('./import/import-file.ts')
      await importFile(session.db, { file, table }, session.context)
    },
  },
  '.help': { operands: '', help: 'this help', run: async (session) => await session.print(HELP) },
  '.quit': {
    operands: '',
    help: 'leave (also quit, exit or Ctrl-D); an open transaction is rolled back',
    run: async () => 'exit',
  },
}

const ALIASES: Readonly<Record<string, string>> = {
  '.exit': '.quit',
  exit: '.quit',
  quit: '.quit',
  help: '.help',
  '?': '.help',
}

const HELP = `Statements end with a semicolon and may span several lines. BEGIN opens a transaction for the statements that follow.
${Object.entries(COMMANDS)
  .map(([name, { operands, help }]) => `  ${`${name} ${operands}`.trimEnd().padEnd(40)} ${help}`)
  .join('\n')}
Ctrl-C cancels the input, or the running statement. Tab completes the names of tables and columns.`

/** Whether a line is a dot command, or a word such as `help` that stands for one. */
export const isDotCommand = (line: string): boolean =>
  /^\s*\./.test(line) || Object.hasOwn(ALIASES, line.trim().replace(/\s*;$/, '').toLowerCase())

export const DOT_COMMAND_NAMES = Object.keys(COMMANDS)

/** Runs a dot command. @returns 'exit' if it leaves the prompt or ends the script @throws Error if it fails, or is unknown */
export async function runDotCommand(session: Session, line: string): Promise<'exit' | void> {
  const [word = '', ...args] = splitWords(line.trim().replace(/;$/, ''))
  const key = word.toLowerCase()
  const name = (Object.hasOwn(ALIASES, key) ? ALIASES[key] : undefined) ?? key
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (command === undefined) throw new Error(`unknown command ${word}; .help lists the commands`)
  return await command.run(session, args)
}

/** Splits a line into words, which may be quoted. */
function splitWords(line: string): string[] {
  return Array.from(
    line.matchAll(/"([^"]*)"|'([^']*)'|[^\s]+/g),
    ([text, double, single]) => double ?? single ?? text,
  )
}

/** Reads the operand of a dot command. @throws Error unless it is `on` or `off` */
function readOnOff(name: string, word: string | undefined): boolean {
  if (word !== 'on' && word !== 'off') throw new Error(`${name} needs on or off`)
  return word === 'on'
}

/** Ends a statement with a semicolon, which must not be in a comment at its end. */
const endStatement = (sql: string): string => (/--.*$/.test(sql) ? `${sql}\n;` : `${sql};`)

/** Prints the texts in the only column of a result. @returns their number */
async function printTexts(
  session: Session,
  sql: string,
  args: readonly (string | null)[],
  format = (text: string): string => text,
): Promise<number> {
  let count = 0
  await session.onStream(async (stream, signal) => {
    const { rows } = await stream.execute(sql, [...args], { rowMode: 'array', signal })
    for (const [text] of rows) await session.print(textFor(session.context.output, format(String(text))))
    count = rows.length
  })
  return count
}
