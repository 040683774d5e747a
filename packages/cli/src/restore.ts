import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { type Client, RestoreError, type RestoreProgress, restore, SqlError } from '@batonsql/core'
import { checkFile } from './check-file.ts'
import type { CommandContext, CommandInput } from './command-context.ts'
import { openDatabase, readTarget } from './database-address.ts'
import type { RESTORE_OPTIONS } from './option-table.ts'
import { Progress } from './progress.ts'
import { readText } from './read-text.ts'
import { tap } from './tap.ts'
import { UsageError } from './usage-error.ts'

/** Applies a dump to an empty database. */
export async function runRestore({
  values,
  operands,
  context,
}: CommandInput<typeof RESTORE_OPTIONS>): Promise<void> {
  const { target, remaining } = readTarget(operands, 1, context)
  const [file] = remaining
  if (file === undefined) throw new UsageError('baton restore: missing FILE, or DATABASE_URL')
  if (file !== '-') await checkFile(file)
  const db = openDatabase(target, values, context)
  try {
    const { characters } = await restoreDump(db, file, context, values.resume)
    if (characters === 0)
      throw new Error(
        `${file === '-' ? 'the input' : file} is the dump of an empty database: nothing was restored`,
      )
  } catch (error) {
    // if the input is not a dump, nothing was applied, and there is nothing to resume
    if (error instanceof RestoreError && (error.applied > 0 || error.outcome === 'unknown'))
      throw new Error(`${error.message}\n${getRemedy(error)}`, { cause: error })
    if (error instanceof TypeError)
      throw new Error(error.message.replace('{ resume: true }', '--resume'), { cause: error })
    throw error
  } finally {
    await db.close()
  }
}

/** Applies a dump to an empty database, and shows the progress. @param file its path, or `-` for the input of the command */
export async function restoreDump(
  db: Client,
  file: string,
  { input, stderr, signal }: CommandContext,
  resume = false,
): Promise<RestoreProgress> {
  const progress = new Progress(stderr)
  try {
    const stream = (file === '-' ? input : createReadStream(file)) as AsyncIterable<Uint8Array>
    // a pipe has the size 0
    const size = file === '-' ? 0 : (await stat(file)).size
    let readBytes = 0
    const bytes = tap(stream, (part) => {
      readBytes += part.length
    })
    return await restore(db, readText(bytes, file === '-' ? 'the input' : file), {
      signal,
      resume,
      onProgress: ({ statements }) =>
        progress.show(
          `${statements.toLocaleString('en')} statements`,
          size === 0 ? undefined : readBytes / size,
        ),
    })
  } finally {
    progress.end()
  }
}

/** Codes of errors that may not recur. */
const TRANSIENT = /^(?:SQLITE_(?:BUSY|FULL|NOMEM|IOERR|INTERRUPT|LOCKED)|TRANSACTION_|BLOCKED|PROXY_ERROR)/

/** Says what to do after a restore has stopped. */
export function getRemedy({ cause }: RestoreError): string {
  return cause instanceof SqlError && !TRANSIENT.test(cause.code)
    ? 'It would fail again: correct the file, and restore it into an empty database.'
    : 'Run the same command with --resume to continue.'
}
