import { randomUUID } from 'node:crypto'
import { lstat, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Writes a file completely, or not at all. Until it is complete, it has a random name, so that no other user can leave a link or a file
 * there. If the process is killed, the unfinished file remains.
 * @param mode permissions of the file
 * @param check called before the file gets its name
 */
export async function writeAtomically(
  file: string,
  content: AsyncIterable<Uint8Array> | string,
  mode: number,
  check?: () => Promise<void>,
): Promise<void> {
  const temporaryFile = `${file}.${randomUUID()}.unfinished`
  try {
    const handle = await open(temporaryFile, 'wx', mode)
    try {
      await handle.writeFile(content)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await check?.()
    await rename(temporaryFile, file)
  } catch (error) {
    await rm(temporaryFile, { force: true }).catch(() => {}) // reports the first error instead
    // the caller does not know the temporary name
    if (error instanceof Error) error.message = error.message.replaceAll(temporaryFile, () => file)
    throw error
  }
}

/** Creates the folder for a new file, readable only by the current user, unless the folder exists. */
export async function createFolderOf(file: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
}

/** Creates a file that only this user can read, and its folder. @throws Error if the file exists */
export async function writeNewFile(file: string, content: AsyncIterable<Uint8Array>): Promise<void> {
  const checkAbsent = async (): Promise<void> => {
    if (await lstat(file).catch(() => null)) throw new Error(`${file} already exists`)
  }
  await createFolderOf(file)
  await checkAbsent()
  // another process may create it in the meantime
  await writeAtomically(file, content, 0o600, checkAbsent)
}
