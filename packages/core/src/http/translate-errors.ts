import type { WireError } from '../base/wire.ts'
import { CONCURRENT_REJECTED } from '../codec/control.ts'
import type { Sender } from './message.ts'
import { Tursodb } from './tursodb.ts'

// Translates unusual errors into the format that the rest of the client expects, which is libsql-server's: errors of a primary that a
// replica passes on, and errors of Turso's engine ("tursodb"). Explains one error of libsql-server. Loaded when the first such error
// arrives.

// an alternation in the loop would overflow the stack for long text
const JSON_STRING = '"[^"\\\\]*(?:\\\\.[^"\\\\]*)*"'
/** Matches a wire error in the text of a response. Text in a value does not match, because its quotes are escaped. */
const WIRE_ERROR = new RegExp(`\\{"message":${JSON_STRING}(?:,"\\w+":(?:null|${JSON_STRING}))*\\}`, 'g')

const LIBSQL_PREFIX = 'SQLite error: '
/** Prefixes that the engine's bindings and servers add to messages; servers in front of them add the prefix of libsql-server. */
const KNOWN_PREFIXES =
  /^(?:(?:SQLite error|Error executing statement|step failed|prepare failed|failed to consume stmt): )*/
/** Maximum number of other prefixes. */
const MAX_PREFIXES = 5

/** The engine's kinds of errors. The text of a runtime error may come from RAISE(). */
const KIND = /^(?:Runtime|Parse|Transaction) error: /
const RUNTIME = 'Runtime error: '
const NOT_RUNTIME = /^SQL_|BUSY/

/** libsql-server's codes for the engine's errors, by message without prefix. */
const CODES: readonly (readonly [RegExp, code: string, extendedCode?: string])[] = [
  [
    /^(?:UNIQUE|NOT NULL|CHECK|FOREIGN KEY|(?:immediate|deferred) foreign key) constraint failed|^cannot store /,
    'SQLITE_CONSTRAINT',
  ],
  [/^(?:database is locked|Database is busy)$/, 'SQLITE_BUSY'],
  [
    /^(?:Database snapshot is stale|Write-write conflict|Commit dependency aborted|Conflict: |Database schema conflict)/,
    'SQLITE_BUSY',
    'SQLITE_BUSY_SNAPSHOT',
  ],
  [/^near "[^]*": syntax error$|^incomplete input$|^non-terminated /, 'SQL_PARSE_ERROR'],
  [/^The supplied SQL string contains no statements$/, 'SQL_NO_STATEMENT'],
  [/^no such (?:column|function): |^[^:]* already exists$/, 'SQL_INPUT_ERROR'],
  [/^datatype mismatch$/, 'SQLITE_MISMATCH'],
  [/^string or blob too big$/, 'SQLITE_TOOBIG'],
  [/^integer overflow$/, 'SQLITE_UNKNOWN'],
  [/^Database is full/, 'SQLITE_FULL'],
  [/^I\/O error/, 'SQLITE_IOERR'],
]

/** An error in the engine's own words. */
interface EngineError {
  readonly text: string
  readonly kind: string | undefined
  readonly rule: (typeof CODES)[number] | undefined
}

/** Reads an error that begins with the engine's own words; returns null if it does not. */
function readWords(words: string): EngineError | null {
  const kind = KIND.exec(words)?.[0]
  const text = words.slice(kind?.length ?? 0).replace(/ \(19\)$/, '')
  const rule = CODES.find(
    ([pattern, code]) => pattern.test(text) && !(kind === RUNTIME && NOT_RUNTIME.test(code)),
  )
  return kind || rule ? { text, kind, rule } : null
}

/** Finds the engine's own words in a message: the first ones, because RAISE() may repeat them. */
function findWords(message: string, start: number): EngineError | null {
  for (let count = 0, position = start; count <= MAX_PREFIXES; count++) {
    const words = readWords(message.slice(position))
    if (words) return words
    const colon = message.indexOf(': ', position)
    if (colon < 0) return null
    position = colon + 2
  }
  return null
}

/**
 * Translates an error of the engine; returns null for one of another server. Who has sent it:
 * - a server of the engine, if the code is one that only those have, or the message begins with a kind of the engine's errors;
 * - libsql-server, if the message has its prefix and a code;
 * - a server of the engine that sets libsql-server's codes, which are kept, or none, if the message has the words of the engine;
 * - another server otherwise.
 */
function translateTursodb({
  message,
  code: wireCode,
  extended_code: wireExtendedCode,
}: WireError): WireError | null {
  // a migration of libsql-server quotes the error of its statement
  if (wireCode?.startsWith('SCHEMA_')) return null
  const prefix = KNOWN_PREFIXES.exec(message)?.[0] ?? ''
  // codes that only servers of this engine send, and which do not tell errors apart
  const hasEngineCode = /^(?:SQLITE|PREPARE|EXECUTE|BATCH_STEP)_ERROR$/.test(wireCode ?? '')
  // the server that runs the engine may already have set a more specific code
  const hasCode =
    !hasEngineCode &&
    /^(?:SQL_|SQLITE_(?!UNKNOWN)|ARGS_|TRANSACTION_|RESPONSE_|BLOCKED$)/.test(wireCode ?? '')
  const words = hasCode ? readWords(message.slice(prefix.length)) : findWords(message, prefix.length)
  const { text = message.slice(prefix.length), kind, rule } = words ?? {}
  const isLibsql = prefix === LIBSQL_PREFIX && !kind && wireCode && !hasEngineCode
  const isForeign = prefix === '' && !kind && (!rule || (hasCode && rule[1] !== 'SQLITE_BUSY'))
  if (isLibsql || (isForeign && !hasEngineCode)) return null
  // any other runtime error comes from RAISE()
  const [, code, extendedCode = null] =
    rule ?? ([null, kind === RUNTIME ? 'SQLITE_CONSTRAINT' : 'SQLITE_UNKNOWN'] as const)
  const hint = text.startsWith('Concurrent transaction mode') ? ': run PRAGMA journal_mode = mvcc' : ''
  return {
    message: normalizeConstraint(text) + hint,
    code: (hasCode && wireCode) || code,
    extended_code: wireExtendedCode ?? extendedCode,
  }
}

const UNIQUE = 'UNIQUE constraint failed: '

/** Returns the message of a violated constraint in SQLite's words. */
function normalizeConstraint(text: string): string {
  if (/^(?:immediate|deferred) foreign key constraint failed/.test(text))
    return 'FOREIGN KEY constraint failed'
  // `table.(a, b)`
  const open = text.indexOf('.(')
  if (open < 0 || !text.startsWith(UNIQUE) || !text.endsWith(')')) return text
  const table = text.slice(UNIQUE.length, open)
  const columns = text.slice(open + 2, -1).split(', ')
  return UNIQUE + columns.map((column) => `${table}.${column}`).join(', ')
}

/** The codes of a primary's errors, by the beginning of the message: the rest may be the user's. */
const PRIMARY_CODES: readonly (readonly [RegExp, code: string])[] = [
  [/^Transaction timed-out/, 'TRANSACTION_TIMEOUT'],
  [/^Operation was blocked/, 'BLOCKED'],
  [
    /^(?:SQLite error: )?(?:(?:UNIQUE|NOT NULL|CHECK|FOREIGN KEY) constraint failed|cannot store )/,
    'SQLITE_CONSTRAINT',
  ],
  [/^(?:SQLite error: )?database is locked/, 'SQLITE_BUSY'],
  [/^(?:SQLite error: )?database or disk is full/, 'SQLITE_FULL'],
  [/^SQLite error: |^no such |^table \S+ has no column named |^near "/, 'SQLITE_UNKNOWN'],
]

/** Restores the code of a primary's error: a replica passes on only the message. */
function restoreCode(error: WireError): WireError {
  const message = error.message.replace('error executing a request on the primary: ', '')
  const rule = PRIMARY_CODES.find(([beginning]) => beginning.test(message))
  return { message, code: rule?.[1] ?? 'PROXY_ERROR' }
}

/** Explains the syntax error with which libsql-server rejects the transaction mode `concurrent`. */
function addReason(error: WireError): WireError {
  const isConcurrent = /^SQL string could not be parsed: .*`concurrent`$/i.test(error.message)
  return isConcurrent ? { ...error, message: CONCURRENT_REJECTED + error.message } : error
}

/** Translates the errors in the text of a response. @param onTursodb called if one comes from Turso's engine */
export const translateErrors = (text: string, onTursodb?: () => void): string =>
  text.replace(WIRE_ERROR, (json) => {
    const error = JSON.parse(json) as WireError
    if (error.code === 'PROXY_ERROR') return JSON.stringify(restoreCode(error))
    // on libsql-server, RAISE() may have the text of another error
    const mayBeRaise = error.code === 'SQLITE_CONSTRAINT' && error.message.startsWith(LIBSQL_PREFIX)
    const translated = mayBeRaise ? null : translateTursodb(error)
    if (translated) onTursodb?.()
    return JSON.stringify(translated ?? addReason(error))
  })

/**
 * Reads a response that contains unusual errors.
 * @throws RefusedRequest if Turso's engine executed nothing and the request may be sent again
 */
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
