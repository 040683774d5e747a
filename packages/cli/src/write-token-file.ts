import { rename, rm, writeFile } from 'node:fs/promises'

/** Writes secrets to a file that only this user can read. Replaces an existing file and its permissions. */
export async function writeTokenFile(path: string, text: string): Promise<void> {
  const temporaryFile = `${path}.${process.pid}.tmp`
  try {
    await writeFile(temporaryFile, text, { flag: 'wx', mode: 0o600 })
    await rename(temporaryFile, path)
  } catch (error) {
    await rm(temporaryFile, { force: true }).catch(() => {}) // reports the first error instead
    throw new Error(`the tokens could not be written to ${path}: ${(error as Error).message}`, {
      cause: error,
    })
  }
}
