import { closeSync, fsyncSync, openSync } from 'node:fs'

/** Waits until the names of a folder's files are on disk. */
export function syncFolder(path: string): void {
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } catch (error) {
    // some file systems cannot synchronize folders
    const { code = '' } = error as NodeJS.ErrnoException
    if (!['EPERM', 'EISDIR', 'EINVAL', 'EBADF', 'EACCES'].includes(code)) throw error
  } finally {
    closeSync(folder)
  }
}
