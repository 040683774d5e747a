import { basename } from 'node:path'
import { type Client, DatabaseError } from '@batonsql/core'
import { type CommandContext, print } from '../command-context.ts'
import { Progress } from '../progress.ts'
import { ImportSource } from './import-source.ts'
import { ImportTarget } from './import-target.ts'
import { RowLoader } from './row-loader.ts'
import { rejectBadRows, scanRows } from './scan-rows.ts'

export interface ImportOptions {
  /** Path of the CSV file; `-` for standard input. */
  readonly file: string
  readonly table: string
  /** Types of columns, by name, for a new table. */
  readonly types?: ReadonlyMap<string, string>
  /** Names of the columns, for a file without a header row. */
  readonly columns?: readonly string[] | null
  readonly delimiter?: string
  readonly resume?: boolean
  /** Reports rows that cannot be stored, and imports the others. */
  readonly skipsBadRows?: boolean
}

/** Imports a CSV file into a table, which is created if it does not exist. */
export async function importFile(db: Client, options: ImportOptions, context: CommandContext): Promise<void> {
  const { file, table, types = new Map(), columns = null, delimiter = ',', resume = false } = options
  const { skipsBadRows = false } = options
  const source = await ImportSource.open(file, delimiter, context)
  const progress = new Progress(context.stderr)
  try {
    const target = await ImportTarget.open(db, table, context.signal)
    const countBefore = await target.countRows(db, context.signal)
    const scan = await scanRows(source, { target, types, columns, signal: context.signal })
    const loader = new RowLoader(db, { scan, target, source, skipsBadRows, signal: context.signal })
    await loader.prepare(resume)
    if (!skipsBadRows) rejectBadRows(scan, resume)
    const report = (): void =>
      progress.show(`${loader.position.toLocaleString('en')} rows`, loader.position / (scan.rowCount || 1))
    await loader.load(report).catch(async (error: unknown) => {
      progress.end()
      const mayHaveBeenApplied =
        context.signal.aborted || (error instanceof DatabaseError && error.outcome === 'unknown')
      const isKnown = !mayHaveBeenApplied || (await loader.readProgressAfterFailure())
      const remedy = describeInterruption(isKnown, loader)
      // the command itself prints nothing about Ctrl-C
      if (context.signal.aborted) context.stderr.write(`${remedy}\n`)
      context.signal.throwIfAborted()
      throw new Error(`${(error as Error).message}\n${remedy}`, { cause: error })
    })
    progress.end()
    for (const problem of loader.problems) context.stderr.write(`skipped ${problem}\n`)
    const countAfter = countBefore ? await target.countRows(db, context.signal) : null
    const columnList = scan.columns.map(({ name, type }) => `${name} ${type}`.trim()).join(', ')
    const growth =
      countBefore && countAfter !== null
        ? `, which had ${count(countBefore)} before and has ${count(countAfter)} now`
        : ''
    await print(context, `imported ${count(loader.imported)} into ${table} (${columnList})${growth}\n`)
    for (const note of scan.notes) context.stderr.write(`note: ${note}\n`)
  } finally {
    progress.end()
    await source.close()
  }
}

export const tableOf = (file: string): string => basename(file).replace(/\.[^.]*$/, '')

/** Returns what was kept, and how to continue. @param isKnown whether the progress was read from the database */
function describeInterruption(isKnown: boolean, loader: RowLoader): string {
  const { position, hasProgress, isComplete, progressTable } = loader
  if (isComplete) return `All rows were handled. If the table "${progressTable}" still exists, drop it.`
  if (!isKnown)
    return `It is unknown whether rows were imported. If the table "${progressTable}" exists, run the same command with --resume.`
  if (!hasProgress) return 'Nothing was imported.'
  return `${count(position)} of the file were handled, as the table "${progressTable}" records. Run the same command with --resume to continue.`
}

const count = (rows: number): string => `${rows.toLocaleString('en')} ${rows === 1 ? 'row' : 'rows'}`
