import { withTimeLimit } from './running-requests.ts'

/** Reads a page of the database's file. */
export const PROBE = 'SELECT count(*) FROM sqlite_schema'
/** A database that needs more time is busy, not damaged. */
const PROBE_LIMIT_MS = 3_000
const FILE_ERROR = /"code":"(SQLITE_(?:CORRUPT|NOTADB|IOERR|CANTOPEN)\w*)/

/**
 * Returns why a database cannot be read; null if it can, or if it is busy.
 * @param read executes {@link PROBE} and returns the response; rejects if the request fails
 */
export async function probeDatabase(read: () => Promise<string>): Promise<string | null> {
  let problem: string | null = null
  const probe = async (): Promise<void> => {
    try {
      problem = FILE_ERROR.exec(await read())?.[1] ?? null
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error)
    }
  }
  await withTimeLimit(probe(), PROBE_LIMIT_MS)
  return problem === null ? null : `the database cannot be read: ${problem as string}`
}
