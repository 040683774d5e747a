import { createReadStream } from 'node:fs'
import { BackendError, type DatabaseBackend } from '@batonsql/server-common/backend'
import { fromRequest, releaseBodyMemory, toResponse } from '@batonsql/server-common/http'
import type { DatabaseRow } from './registry/rows.ts'
import { mintDatabaseToken } from './tokens/database-tokens.ts'

/** Content of a new database: a file of SQL statements. */
export interface DumpSource {
  readonly type: 'dump'
  readonly file: string
}

/** Time limit of one request of the restore, each of about a million characters. */
const REQUEST_TIMEOUT_MS = 600_000
/** An error may quote the statement that failed, which may be the whole dump. */
const MAX_REASON_LENGTH = 300

/** Thrown if the server was restarted while it loaded a dump: it is unknown what was loaded. */
export class InterruptedLoadError extends BackendError {}

/**
 * Restores a dump into an empty database of a back end, with `restore()` of core, so that the same dumps are accepted as from a client.
 * @throws BackendError with the first line of the reason; InterruptedLoadError if the server was restarted
 */
export async function loadDump(backend: DatabaseBackend, row: DatabaseRow, file: string): Promise<void> {
  const authToken = mintDatabaseToken(row, {
    authorization: 'full-access',
    expiresInSeconds: null,
    attach: [],
    tables: [],
  })
  // loaded here, so that a version of Node that is too old for both packages is reported by the server
  const { createClient, restore } = await import('@batonsql/core')
  const db = createClient({
    url: 'http://localhost',
    authToken,
    requestTimeoutMs: REQUEST_TIMEOUT_MS,
    async fetch(url, init) {
      const request = fromRequest(new Request(url, init))
      return toResponse(await backend.handle(row.id, request).finally(() => releaseBodyMemory(request.body)))
    },
  })
  try {
    await restore(db, createReadStream(file))
  } catch (error) {
    const [reason = ''] = (error instanceof Error ? error.message : String(error)).split('\n')
    const message = `the dump could not be loaded: ${reason.slice(0, MAX_REASON_LENGTH)}`
    const { cause } = error as { readonly cause?: { readonly status?: number } }
    throw cause?.status === 502 ? new InterruptedLoadError(message) : new BackendError(message)
  } finally {
    await db.close()
  }
}
