import { readdir } from 'node:fs/promises'
import { isMissing } from './is-missing.ts'

/** Lists a folder. One that does not exist, or is a file, is empty; one that cannot be read is not. */
export async function listFolder(path: string): Promise<readonly string[]> {
  try {
    return await readdir(path)
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}
