import type { CommandInput } from './command-context.ts'
import { openDatabase, readTarget } from './database-address.ts'
import { importFile, tableOf } from './import/import-file.ts'
import type { IMPORT_OPTIONS } from './option-table.ts'
import { UsageError } from './usage-error.ts'

/** Imports a CSV file into a table. */
export async function runImport({
  values,
  operands,
  context,
}: CommandInput<typeof IMPORT_OPTIONS>): Promise<void> {
  const { target, remaining } = readTarget(operands, 1, context)
  const [file] = remaining
  if (file === undefined) throw new UsageError('baton import: missing FILE.csv, or DATABASE_URL')
  const table = values.table ?? (file === '-' ? '' : tableOf(file))
  if (table === '') throw new UsageError('baton import: pass the table with --table')
  const db = openDatabase(target, values, context)
  try {
    await importFile(
      db,
      {
        file,
        table,
        types: new Map((values.type ?? []).map(readType)),
        columns: values.columns?.split(',') ?? null,
        delimiter: readDelimiter(values.delimiter ?? ','),
        resume: values.resume === true,
        skipsBadRows: values['skip-bad-rows'] === true,
      },
      context,
    )
  } finally {
    await db.close()
  }
}

function readType(text: string): [column: string, type: string] {
  const [, column, type] = /^(.+)=([A-Za-z][\w ]*(?:\(\d+(?:, ?\d+)?\))?)$/.exec(text) ?? []
  if (column === undefined || type === undefined)
    throw new UsageError(`baton import: --type must be COLUMN=TYPE, such as zip=TEXT, not ${text}`)
  return [column, type]
}

function readDelimiter(text: string): string {
  const delimiter = text === '\\t' || text === 'tab' ? '\t' : text
  if (delimiter.length !== 1 || /["\r\n]/.test(delimiter))
    throw new UsageError(`baton import: --delimiter must be one character, or tab, not ${text}`)
  return delimiter
}
