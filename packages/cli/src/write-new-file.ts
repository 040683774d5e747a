import { lstat, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Creates the folder for a new file, readable only by the current user, unless the folder exists. */
export async function createFolderOf(file: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
}

/**
 * Creates a file that only this user can read, and its folder: completely, or not at all, even if the process is killed.
 * @throws Error if the file exists
 */
export async function writeNewFile(file: string, content: AsyncIterable<Uint8Array>): Promise<void> {
  const temporaryFile = `${file}.${process.pid}.unfinished`
  try {
    await createFolderOf(file)
    await checkAbsent(file)
    const handle = await open(temporaryFile, 'w', 0o600)
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
