import { constants } from 'node:fs'
import { copyFile, open, rm } from 'node:fs/promises'

const MAGIC = 'SQLite format 3\0'
const IN_USE_MARK = 'in use by Baton\0'

/**
 * Copies an SQLite file that no other program is writing to, including its journals. An empty file counts as an empty database.
 * Never overwrites a file.
 */
export async function copyDatabaseFile(from: string, to: string): Promise<void> {
  await checkHeader(from)
  const copiedPaths: string[] = []
  try {
    for (const suffix of ['', '-wal', '-journal']) {
      if (await copyIfPresent(`${from}${suffix}`, `${to}${suffix}`, suffix === ''))
        copiedPaths.push(`${to}${suffix}`)
    }
  } catch (error) {
    for (const path of copiedPaths) await rm(path, { force: true })
    throw error
  }
}

async function copyIfPresent(from: string, to: string, isRequired: boolean): Promise<boolean> {
  try {
    await copyFile(from, to, constants.COPYFILE_EXCL)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && !isRequired) return false
    if (code === 'EEXIST') throw new Error(`${to} already exists`, { cause: error })
    throw new Error(`${from} could not be copied to ${to}: ${(error as Error).message}`, { cause: error })
  }
}

async function checkHeader(path: string): Promise<void> {
  const file = await open(path, 'r').catch((error: unknown) => {
    throw new Error(`${path} cannot be read: ${(error as Error).message}`, { cause: error })
  })
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(MAGIC.length), 0, MAGIC.length, 0)
    const head = buffer.toString('latin1', 0, bytesRead)
    if (head === IN_USE_MARK) throw new Error(`${path} is in use by a local server; stop it first`)
    if (head !== '' && head !== MAGIC) throw new Error(`${path} is not an SQLite database`)
  } finally {
    await file.close()
  }
}
