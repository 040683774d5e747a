import { createClient } from '@batonsql/core'
import type { CommandContext } from './command-context.ts'
import type { DatabaseToFill } from './database-host.ts'
import { restoreDump } from './restore.ts'

/**
 * Applies a dump to a database that was created for it. After an error or an interruption, deletes the database, and reports this on
 * stderr. The database must have been created without the signal of the command, so that it is known to exist.
 * @param file the path of the dump, or `-` for the input of the command
 */
export async function fillFromDump(
  { database: { name }, locate, delete: remove }: DatabaseToFill,
  file: string,
  context: CommandContext,
): Promise<void> {
  try {
    context.signal.throwIfAborted()
    const db = createClient(await locate())
    try {
      await restoreDump(db, file, context)
    } finally {
      await db.close()
    }
  } catch (error) {
    const end = await remove().then(
      () => 'was deleted',
      (failure: Error) =>
        `is incomplete and could not be deleted (${failure.message}): delete it with \`baton databases destroy ${name}\``,
    )
    context.stderr.write(`the database "${name}" ${end}\n`)
    throw error
  }
}
