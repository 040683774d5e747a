import { randomUUID } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { ExportedFile } from '@batonsql/server-common/backend'

/** The steps of an export. */
interface ExportSteps {
  /** Copies the file of the database, and its WAL to `<path>-wal`. */
  readonly snapshot: (path: string) => Promise<void>
  /** Writes the WAL of the copy into its file. */
  readonly complete: (path: string) => Promise<void>
}

/** Creates a complete copy of the current state of a database, while requests and transactions continue. */
export async function createExport(directory: string, steps: ExportSteps): Promise<ExportedFile> {
  await mkdir(directory, { recursive: true })
  const path = join(directory, `${randomUUID()}.db`)
  const remove = async (): Promise<void> => {
    // `complete` renames the WAL to `.wal`
    for (const suffix of ['', '-wal', '.wal']) await rm(`${path}${suffix}`, { force: true })
  }
  try {
    await steps.snapshot(path)
    await steps.complete(path)
    return { path, remove }
  } catch (error) {
    // what cannot be removed now is removed at the next start
    await remove().catch(() => {})
    throw error
  }
}
