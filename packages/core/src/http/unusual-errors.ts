import type { WireError } from '../base/wire.ts'
import type { Sender } from './message.ts'
import { Tursodb } from './tursodb.ts'

// Translates other servers' errors into the format of libsql-server, which the rest of the client expects: a primary's errors that
// a replica passes on, and those of Turso's engine ("tursodb"). Loaded when the first such error arrives.

// an alternation in the loop would overflow the stack for long text
const JSON_STRING = '"[^"\\\\]*(?:\\\\.[^"\\\\]*)*"'
/** Matches a wire error in the text of a response. Text in a value does not match, because its quotes are escaped. */
const WIRE_ERROR = new RegExp(`\\{"message":${JSON_STRING}(?:,"\\w+":(?:null|${JSON_STRING}))*\\}`, 'g')

/** The prefixes that the engine and its bindings add to messages. */
const MESSAGE_PREFIX =
  /^(?:(?:step|prepare) failed: |failed to consume stmt: )?((?:Runtime|Parse|Transaction) error: )?/

/** Matches the errors of a rejected writer. With the prefix of a runtime error, the same text comes from RAISE(). */
const LOCKED_MESSAGE = /^(?:database is locked|Database is busy)$/

/** libsql-server's codes for the engine's errors, by message without prefix. */
const CODES: readonly (readonly [RegExp, code: string, extendedCode?: string])[] = [
  [/^(?:UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed|^cannot store /, 'SQLITE_CONSTRAINT'],
  [LOCKED_MESSAGE, 'SQLITE_BUSY'],
  [
    /^(?:Database snapshot is stale|Write-write conflict|Commit dependency aborted|Conflict: |Database schema conflict)/,
    'SQLITE_BUSY',
    'SQLITE_BUSY_SNAPSHOT',
  ],
  [/: syntax error$|^incomplete input$/, 'SQL_PARSE_ERROR'],
  [/^no such column: | already exists$/, 'SQL_INPUT_ERROR'],
  [/^datatype mismatch$/, 'SQLITE_MISMATCH'],
  [/^string or blob too big$/, 'SQLITE_TOOBIG'],
  [/^integer overflow$/, 'SQLITE_UNKNOWN'],
  [/^Database is full/, 'SQLITE_FULL'],
  [/^I\/O error/, 'SQLITE_IOERR'],
]

/** Translates an error of the engine; returns null for one of another server. */
function translateTursodb({
  message,
  code: wireCode,
  extended_code: wireExtendedCode,
}: WireError): WireError | null {
  const [prefix = '', kind] = MESSAGE_PREFIX.exec(message) ?? []
  const text = message
    .slice(prefix.length)
    .replace(/ \(19\)$/, '')
    .replace(/^(?:immediate|deferred) foreign key constraint failed.*/, 'FOREIGN KEY constraint failed')
    // `table.(a, b)`; the end is matched first, so that the rest never backtracks
    .replace(
      /^(?=[^]*\)$)(UNIQUE [^:]*: )([^]*)\.\(([^]*)\)$/,
      (_, start: string, table: string, columns: string) => {
        return start + columns.replaceAll(/(^|, )/g, `$1${table}.`)
      },
    )
  const rule = CODES.find(
    ([pattern]) => pattern.test(text) && !(kind === 'Runtime error: ' && LOCKED_MESSAGE.test(text)),
  )
  // the server that runs the engine may already have set a code
  const hasCode = /^SQLITE_(?!UNKNOWN)/.test(wireCode ?? '')
  if (prefix === '' && (!rule || (hasCode && rule[1] !== 'SQLITE_BUSY'))) return null
  // any other runtime error comes from RAISE()
  const [, code, extendedCode = null] =
    rule ?? ([null, kind === 'Runtime error: ' ? 'SQLITE_CONSTRAINT' : 'SQLITE_UNKNOWN'] as const)
  const hint = text.startsWith('Concurrent transaction mode') ? ': run PRAGMA journal_mode = mvcc' : ''
  return {
    message: text + hint,
    code: (hasCode && wireCode) || code,
    extended_code: wireExtendedCode ?? extendedCode,
  }
}

const PRIMARY_ERRORS = [
  ['Transaction timed-out', 'TRANSACTION_TIMEOUT'],
  ['Operation was blocked', 'BLOCKED'],
  ['constraint failed', 'SQLITE_CONSTRAINT'],
  ['database is locked', 'SQLITE_BUSY'],
  ['disk is full', 'SQLITE_FULL'],
  ['SQLite error: ', 'SQLITE_UNKNOWN'],
] as const

/** Restores the code of a primary's error: a replica passes on only the message. */
function restoreCode(error: WireError): WireError {
  const message = error.message.replace('error executing a request on the primary: ', '')
  const rule = PRIMARY_ERRORS.find(([words]) => message.includes(words))
  return { message, code: rule?.[1] ?? 'PROXY_ERROR' }
}

/** Explains the syntax error with which libsql-server rejects the transaction mode `concurrent`. */
function addReason(error: WireError): WireError {
  const isConcurrent = /^SQL string could not be parsed: .*`concurrent`$/i.test(error.message)
  return isConcurrent
    ? { ...error, message: `mode 'concurrent' needs Turso's engine: ${error.message}` }
    : error
}

/** Translates the errors in the text of a response. @param onTursodb called if one comes from Turso's engine */
export const translateErrors = (text: string, onTursodb?: () => void): string =>
  text.replace(WIRE_ERROR, (json) => {
    const error = JSON.parse(json) as WireError
    if (error.code === 'PROXY_ERROR') return JSON.stringify(restoreCode(error))
    const translated = translateTursodb(error)
    if (translated) onTursodb?.()
    return JSON.stringify(translated ?? addReason(error))
  })

/** Reads a response that contains unusual errors. @throws Rejection if Turso's engine executed nothing and the request may be sent again */
export function readUnusualResponse<R>(
  http: Sender & { tursodb: Tursodb | null },
  text: string,
  read: (text: string) => R,
): R {
  let isTursodb = false
  const translated = translateErrors(text, () => {
    isTursodb = true
  })
  const value = read(translated)
  if (!isTursodb) return value
  http.tursodb ??= new Tursodb(http)
  return http.tursodb.check(value, translated)
}
