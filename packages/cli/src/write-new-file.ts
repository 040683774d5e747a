import { randomUUID } from 'node:crypto'
import { lstat, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Returns the name under which a file is written before it is complete. It is random, so that no other user can leave a link or a file
 * there.
 */
export const unfinished = (file: string): string => `${file}.${randomUUID()}.unfinished`

/** Creates the folder for a new file, readable only by the current user, unless the folder exists. */
export async function createFolderOf(file: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
}

/**
 * Creates a file that only this user can read, and its folder: completely, or not at all. If the process is killed, an unfinished file
 * remains beside it.
 * @throws Error if the file exists
 */
export async function writeNewFile(file: string, content: AsyncIterable<Uint8Array>): Promise<void> {
  const temporaryFile = unfinished(file)
  try {
    await createFolderOf(file)
    await checkAbsent(file)
    const handle = await open(temporaryFile, 'wx', 0o600)
    try {
      await handle.writeFile(content)
      await handle.sync()
    } finally {
      await handle.close()
    }
    // another process may have created it in the meantime
    await checkAbsent(file)
    await rename(temporaryFile, file)
  } catch (error) {
    await rm(temporaryFile, { force: true })
    throw error
  }
}

async function checkAbsent(file: string): Promise<void> {
  const existing = await lstat(file).catch(() => null)
  if (existing !== null) throw new Error(`${file} already exists`)
}
