import { CALL_OPTIONS, checkOptions } from '../base/check-options.ts'
import { ProtocolError } from '../base/errors.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { type Client, getHttp } from '../client/client.ts'
import { ResponseBody } from '../http/response-body.ts'
import type { CallOptions } from '../options.ts'
import { readStatements } from './statement-reader.ts'

export interface DumpOptions extends Omit<CallOptions, 'timeoutMs'> {
  /** Preserves the rowids of tables without an INTEGER PRIMARY KEY. @default false */
  readonly preserveRowIds?: boolean | undefined
  /** Longest time without data from the server, in ms. @default the client's `requestTimeoutMs` */
  readonly timeoutMs?: number | undefined
}

/**
 * The SQL that recreates a database, streamed from one snapshot as it is consumed. A dump can be read only once. Leaving the loop
 * stops the dump on the server.
 */
export interface Dump extends AsyncIterable<string> {
  /** Yields statements, each with its semicolon and line break; concatenated, they make up the dump. */
  [Symbol.asyncIterator](): AsyncGenerator<string, void, undefined>
  /** Returns the dump as UTF-8 in chunks, for files and HTTP responses. Canceling it stops the dump on the server. */
  bytes(): ReadableStream<Uint8Array>
}

/**
 * Dumps a database. Sends nothing until it is read.
 *
 * ```ts
 * for await (const statement of dump(db)) …
 * await writeFile('backup.sql', dump(db).bytes())
 * ```
 * Reading throws HttpError if the server rejects the request, ProtocolError if the response is not a complete dump,
 * TransportError `TIMEOUT` after too long a pause, and the signal's reason.
 */
export function dump(db: Client, options: DumpOptions = {}): Dump {
  checkOptions(options, { ...CALL_OPTIONS, preserveRowIds: 'boolean' })
  const optionsCopy = { ...options }
  let wasRead = false
  const readParts = (): AsyncGenerator<Uint8Array, void, undefined> => {
    if (wasRead) throw new TypeError('a dump can be read only once: call dump() again')
    wasRead = true
    return readDump(db, optionsCopy)
  }
  return {
    [Symbol.asyncIterator]: () => toStatements(readParts()),
    bytes: () => toStream(readParts()),
  }
}

async function* toStatements(
  parts: AsyncGenerator<Uint8Array, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  try {
    for await (const { sql } of readStatements(parts)) yield `${sql};\n`
  } catch (error) {
    throw withCallerStack(error)
  }
}

/** Number of characters kept from the beginning and the end, to check that the dump is complete. */
const EDGE_LENGTH = 32

/** Yields the parts of a dump. @throws ProtocolError if it is incomplete */
async function* readDump(db: Client, options: DumpOptions): AsyncGenerator<Uint8Array, void, undefined> {
  const http = getHttp(db)
  const { signal, preserveRowIds = false, timeoutMs = http.config.requestTimeoutMs } = options
  const path = `/dump${preserveRowIds ? '?preserve_row_ids=true' : ''}`
  http.lifetime.begin()
  let body: ResponseBody | null = null
  try {
    body = await ResponseBody.open(http, { path, signal, idleTimeoutMs: timeoutMs }, timeoutMs)
    // the checks need only ASCII
    const decoder = new TextDecoder('latin1')
    let start = ''
    let end = ''
    for await (const part of body) {
      if (part.length === 0) continue
      if (start.length < EDGE_LENGTH) {
        start += decoder.decode(part.subarray(0, EDGE_LENGTH))
        if (!isStartOfDump(start)) throw new ProtocolError('the response is not a dump')
      }
      end = (end + decoder.decode(part.subarray(-EDGE_LENGTH))).slice(-EDGE_LENGTH)
      yield part
    }
    if (!/(?:^|\n)COMMIT;\s*$/.test(end)) throw new ProtocolError('the dump was truncated')
  } finally {
    body?.close()
    http.lifetime.end()
  }
}

const DUMP_START = 'PRAGMA foreign_keys=OFF;'

const isStartOfDump = (text: string): boolean =>
  DUMP_START.startsWith(text.slice(0, DUMP_START.length)) || text.startsWith(DUMP_START)

function toStream(parts: AsyncGenerator<Uint8Array, void, undefined>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const part = await parts.next()
          if (part.done) controller.close()
          // a copy: the part is a view of the connection's memory
          else controller.enqueue(new Uint8Array(part.value))
        } catch (error) {
          controller.error(withCallerStack(error))
        }
      },
      async cancel() {
        await parts.return()
      },
    },
    // no request before the first read
    { highWaterMark: 0 },
  )
}
