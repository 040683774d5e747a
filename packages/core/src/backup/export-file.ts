import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import { asNotApplied, ProtocolError } from '../base/errors.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { type Client, getHttp } from '../client/client.ts'
import { ResponseBody } from '../http/response-body.ts'
import type { CallOptions } from '../options.ts'

/** The first bytes of an SQLite file: https://www.sqlite.org/fileformat2.html#magic_header_string */
export const FILE_START = 'SQLite format 3\u0000'

/**
 * Streams a database as an SQLite file, from one snapshot, while writes continue. Needs Baton's local server or the cloud service;
 * libsql-server itself responds with 404. Leaving the loop stops the export.
 *
 * ```ts
 * await writeFile('backup.db', exportFile(db))
 * ```
 * `timeoutMs` limits the time without data, and is the client's `requestTimeoutMs` by default.
 * @throws HttpError if the server rejects the request, ProtocolError if the response is not an SQLite file, TransportError
 * `TIMEOUT` after too long a pause, and the signal's reason
 */
export async function* exportFile(
  db: Client,
  options: CallOptions = {},
): AsyncGenerator<Uint8Array, void, undefined> {
  checkOptions(options, CALL_OPTIONS)
  const http = getHttp(db)
  const { signal, timeoutMs = http.config.requestTimeoutMs } = options
  http.lifetime.begin()
  try {
    const request = { path: '/export/1', signal, idleTimeoutMs: timeoutMs }
    const decoder = new TextDecoder('latin1')
    let start = ''
    // closes the body when this generator ends
    for await (const part of await ResponseBody.open(http, request, timeoutMs)) {
      if (start.length < FILE_START.length) {
        start = (start + decoder.decode(part.subarray(0, FILE_START.length))).slice(0, FILE_START.length)
        if (!FILE_START.startsWith(start)) throw new ProtocolError('the response is not an SQLite file')
      }
      yield part
    }
    if (start.length % FILE_START.length !== 0) throw new ProtocolError('the response is not an SQLite file')
  } catch (error) {
    throw withCallerStack(asNotApplied(error))
  } finally {
    http.lifetime.end()
  }
}
