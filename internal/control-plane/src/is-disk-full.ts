/** Whether an error of a file operation, of the registry or of a back end was caused by a full disk, or probably was. */
export function isDiskFull(error: unknown): boolean {
  // back ends and SQLite have no common code for it
  return (
    error instanceof Error &&
    (/ENOSPC|EDQUOT|disk (?:is )?full/.test(error.message) || isDiskFull(error.cause))
  )
}
