/** Whether a file system call has failed because the path does not exist. */
export function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  // ENOTDIR: part of the path is a file
  return code === 'ENOENT' || code === 'ENOTDIR'
}
