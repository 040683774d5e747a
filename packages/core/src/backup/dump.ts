import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import { asNotApplied, copyError, HttpError, ProtocolError, TransportError } from '../base/errors.ts'
import { MAX_VALUE_BYTES } from '../base/limits.ts'
import { stoppableGenerator } from '../base/stoppable-generator.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { type Client, getHttp } from '../client/client.ts'
import type { Http } from '../http/http.ts'
import { ResponseBody } from '../http/response-body.ts'
import type { CallOptions } from '../options.ts'
import { tableOf, toLiteral, withExactLiterals } from './exact-literals.ts'
import { readStatementGroups } from './statement-reader.ts'
import { readVirtualTable } from './virtual-table.ts'

/** Settings of a dump. */
export interface DumpOptions extends Omit<CallOptions, 'timeoutMs'> {
  /** Preserves the rowids of tables without an INTEGER PRIMARY KEY. @default false */
  readonly preserveRowIds?: boolean | undefined
  /** Longest time without data from the server, in ms. @default the client's `requestTimeoutMs` */
  readonly timeoutMs?: number | undefined
}

/**
 * The SQL that recreates a database on any server, streamed from one snapshot as it is consumed. A dump can be read only once.
 * Leaving the loop stops the dump on the server.
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
  const http = getHttp(db)
  const optionsCopy = { ...options }
  let wasRead = false
  /** @param convert converts the groups of statements */
  const read = <T>(
    convert: (groups: AsyncGenerator<readonly string[]>) => AsyncGenerator<T, void, undefined>,
  ): AsyncGenerator<T, void, undefined> => {
    if (wasRead) throw new TypeError('a dump can be read only once: call dump() again')
    wasRead = true
    return stoppableGenerator(
      (signal) => convert(readLoadable(readDump(http, { ...optionsCopy, signal }), signal)),
      optionsCopy.signal,
    )
  }
  return {
    [Symbol.asyncIterator]: () => read(flatten),
    bytes: () => toStream(read((groups) => groups)),
  }
}

async function* flatten(groups: AsyncGenerator<readonly string[]>): AsyncGenerator<string, void, undefined> {
  for await (const statements of groups) yield* statements
}

/** Yields the statements that are complete after each part of a dump, in a form that every server can execute. */
async function* readLoadable(
  parts: AsyncGenerator<Uint8Array, void, undefined>,
  signal: AbortSignal,
): AsyncGenerator<readonly string[], void, undefined> {
  let lastSql = ''
  try {
    for await (const statements of readStatementGroups(parts)) {
      yield statements.map(({ sql }) => {
        signal.throwIfAborted()
        lastSql = sql
        const text = toLoadable(sql)
        // a comment at the end would contain the semicolon
        return text.includes('--', text.lastIndexOf('\n') + 1) ? `${text}\n;\n` : `${text};\n`
      })
      signal.throwIfAborted()
    }
  } catch (error) {
    throw withCallerStack(asNotApplied(withTable(error, lastSql)))
  }
}

/** Returns a statement of a dump in a form that every server can execute, with the same values. */
function toLoadable(sql: string): string {
  const virtualTable = readVirtualTable(sql)
  if (virtualTable === null) {
    if (/^insert into sqlite_(?:schema|master)\b/i.test(sql))
      throw new ProtocolError(`the definition of a virtual table cannot be read: ${sql.slice(0, 200)}`)
    return withExactLiterals(sql)
  }
  const [name, definition] = [virtualTable.name, virtualTable.definition].map(toLiteral)
  return `INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table',${name},${name},0,${definition})`
}

/** Says why a dump may have failed, and names the last table that arrived. @param sql the last statement that arrived */
function withTable(error: unknown, sql: string): unknown {
  const table = tableOf(sql)
  if (error instanceof RangeError)
    return new ProtocolError(`table ${table}: ${error.message}; exportFile() exports it`, { cause: error })
  // libsql-server closes the connection, so that a proxy in front of it responds with 502; a JSON body has its own reason
  const isLost = error instanceof TransportError && error.code === 'NETWORK'
  const isFromProxy =
    error instanceof HttpError && error.status === 502 && !/^\{(?!.*closed the connection)/s.test(error.body)
  if (!isLost && !isFromProxy) return error
  const place = table === null ? '' : `, in table ${table} or the next one`
  const message = `${error.message}; libsql-server ends a dump at a value of more than ${MAX_VALUE_BYTES} bytes, text that is not UTF-8, an empty name or one with a double quote, or a missing collation${place}`
  return copyError(error, { message })
}

/** Number of characters kept from the beginning and the end, to check that the dump is complete. */
const EDGE_LENGTH = 500

/** Yields the parts of a dump. @throws ProtocolError if it is incomplete */
async function* readDump(http: Http, options: DumpOptions): AsyncGenerator<Uint8Array, void, undefined> {
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
    const [, reason] = /\/\* ERROR: ([^]*?) \*\/\nROLLBACK;.*\s*$/.exec(end) ?? []
    if (reason !== undefined)
      throw new ProtocolError(`the database cannot be dumped: ${reason}; exportFile() exports it`)
    if (!/(?:^|\n)COMMIT;\s*$/.test(end)) throw new ProtocolError('the dump was truncated')
  } finally {
    body?.close()
    http.lifetime.end()
  }
}

const DUMP_START = 'PRAGMA foreign_keys=OFF;'

const isStartOfDump = (text: string): boolean => DUMP_START.startsWith(text.slice(0, DUMP_START.length))

function toStream(groups: AsyncGenerator<readonly string[], void, undefined>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          let group = await groups.next()
          // without a chunk, `pull` would not be called again
          while (!group.done && group.value.length === 0) group = await groups.next()
          if (group.done) controller.close()
          else controller.enqueue(encoder.encode(group.value.join('')))
        } catch (error) {
          controller.error(withCallerStack(error))
        }
      },
      async cancel() {
        await groups.return()
      },
    },
    // no request before the first read
    { highWaterMark: 0 },
  )
}
