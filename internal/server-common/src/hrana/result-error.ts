import type { Dialect } from './dialect.ts'

/** An error in a result, after which the pipeline continues. Its code and message are those sent to the client. */
export class ResultError extends Error {
  readonly code: string
  /** Name of SQLite's extended code if it distinguishes errors with the same `code`, otherwise null. */
  readonly extendedCode: string | null

  constructor(code: string, message: string, extendedCode: string | null = null) {
    super(message)
    this.code = code
    this.extendedCode = extendedCode
  }
}

/** Codes that have a different name in the `cloud` dialect. */
const CLOUD_CODES: Readonly<Record<string, string>> = {
  SQL_NO_STATEMENT: 'SQL_PARSE_ERROR',
  ARGS_INVALID: 'SQL_INPUT_ERROR',
}

/**
 * Encodes an error as JSON text, which is inserted into the JSON text of a response.
 * @param dialect null to use the codes of libsql-server and include SQLite's extended code
 */
export function encodeError({ message, code, extendedCode }: ResultError, dialect: Dialect | null): string {
  const isCloud = dialect === 'cloud'
  return JSON.stringify({
    message: isCloud ? message.replace(/^SQLite error: /, '') : message,
    code: isCloud ? (CLOUD_CODES[code] ?? code) : code,
    ...(extendedCode !== null && dialect !== 'sqld' && { extended_code: extendedCode }),
  })
}

/**
 * Returns the text that libsql-server uses for an error internally. It is never sent: libsql-server counts its length against the
 * limit of a response.
 * @param sql text of the statement
 */
export function formatInternalMessage(
  { code, message }: Pick<ResultError, 'code' | 'message'>,
  sql: string,
): string {
  const input = /^SQL input error: (.*) \(at offset (\d+)\)$/s.exec(message)
  if (code === 'SQL_INPUT_ERROR' && input !== null) return `${input[1]} in ${sql} at offset ${input[2]}`
  if (code !== 'ARGS_INVALID') return message.replace(/^SQLite error: /, '')
  const detail = message.replace('Arguments do not match SQL parameters: ', '')
  return `LibSQL failed to bind provided query parameters: \`${detail}\``
}
