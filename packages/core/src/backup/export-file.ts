import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import { asNotApplied, ProtocolError } from '../base/errors.ts'
import { stoppableGenerator } from '../base/stoppable-generator.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { type Client, getHttp } from '../client/client.ts'
import type { Http } from '../http/http.ts'
import { ResponseBody } from '../http/response-body.ts'
import type { CallOptions } from '../options.ts'

/** The first bytes of an SQLite file: https://www.sqlite.org/fileformat2.html#magic_header_string */
export const FILE_START = 'SQLite format 3\u0000'
const HEADER_BYTES = 100

/**
 * Streams a database as an SQLite file, from one snapshot, while writes continue. Needs Baton's local server or the cloud service;
 * libsql-server itself responds with 404. Leaving the loop stops the export.
 *
 * ```ts
 * await writeFile('backup.db', exportFile(db))
 * ```
 * `timeoutMs` is the longest time without data; by default the client's `requestTimeoutMs`.
 * @throws HttpError if the server rejects the request, ProtocolError if the response is not a complete SQLite file, TransportError
 * `TIMEOUT` after too long a pause, and the signal's reason
 */
export function exportFile(
  db: Client,
  options: CallOptions = {},
): AsyncGenerator<Uint8Array, void, undefined> {
  checkOptions(options, CALL_OPTIONS)
  const http = getHttp(db)
  const { signal, timeoutMs = http.config.requestTimeoutMs } = options
  return stoppableGenerator((joinedSignal) => readFile(http, joinedSignal, timeoutMs), signal)
}

async function* readFile(
  http: Http,
  signal: AbortSignal,
  timeoutMs: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  http.lifetime.begin()
  try {
    const request = { path: '/export/1', signal, idleTimeoutMs: timeoutMs }
    const decoder = new TextDecoder('latin1')
    const header = new Uint8Array(HEADER_BYTES)
    let length = 0
    // closes the body when this generator ends
    for await (const part of await ResponseBody.open(http, request, timeoutMs)) {
      if (length < HEADER_BYTES) {
        header.set(part.subarray(0, HEADER_BYTES - length), length)
        const start = decoder.decode(header.subarray(0, Math.min(length + part.length, FILE_START.length)))
        if (!FILE_START.startsWith(start)) throw new ProtocolError('the response is not an SQLite file')
      }
      length += part.length
      yield part
    }
    // a database that was never written may be an empty file
    if (length > 0 && length < readFileLength(header))
      throw new ProtocolError('the SQLite file was truncated')
  } catch (error) {
    throw withCallerStack(asNotApplied(error))
  } finally {
    http.lifetime.end()
  }
}

/**
 * Returns the length of an SQLite file in bytes according to its header, or the header's own length if the page count is not valid.
 * @see https://www.sqlite.org/fileformat2.html#in_header_database_size
 */
function readFileLength({ buffer, byteOffset }: Uint8Array): number {
  const view = new DataView(buffer, byteOffset)
  const pageSize = view.getUint16(PAGE_SIZE)
  const pageCount = view.getUint32(PAGE_COUNT)
  // an old version of SQLite wrote the file without updating the page count
  if (view.getUint32(CHANGE_COUNTER) !== view.getUint32(VALID_FOR)) return HEADER_BYTES
  return Math.max(HEADER_BYTES, pageCount * (pageSize === 1 ? 65_536 : pageSize))
}

// offsets in the header of an SQLite file
/** The size of a page in bytes; 1 stands for 65,536. */
const PAGE_SIZE = 16
/** Incremented by each transaction. */
const CHANGE_COUNTER = 24
const PAGE_COUNT = 28
/** The change counter when the page count was written. */
const VALID_FOR = 92
