import { access, constants, stat } from 'node:fs/promises'
import { UsageError } from './usage-error.ts'

/** What is wrong with a file that cannot be read, by Node's error code. */
const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'cannot be read: permission denied',
}

/** Checks that a file can be read. @throws UsageError that names it */
export async function checkFile(file: string): Promise<void> {
  try {
    await access(file, constants.R_OK)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new UsageError(`baton: the file ${file} ${REASONS[code ?? ''] ?? `cannot be read: ${message}`}`)
  }
  if ((await stat(file)).isDirectory()) throw new UsageError(`baton: ${file} is a directory, not a file`)
}
