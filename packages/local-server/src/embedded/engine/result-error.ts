/** An error that stands in a result while the rest of the pipeline goes on; code and message are the wire's. */
export class ResultError extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** Writes an error as the wire's JSON. */
export function encodeError(error: ResultError): string {
  return JSON.stringify({ message: error.message, code: error.code })
}

/** An error in the words that libsql-server has for itself; `sql` is the statement's text. */
export function logWords({ code, message }: Pick<ResultError, 'code' | 'message'>, sql: string): string {
  const input = /^SQL input error: (.*) \(at offset (\d+)\)$/s.exec(message)
  if (code === 'SQL_INPUT_ERROR' && input !== null) return `${input[1]} in ${sql} at offset ${input[2]}`
  if (code !== 'ARGS_INVALID') return message.replace(/^SQLite error: /, '')
  const detail = message.replace('Arguments do not match SQL parameters: ', '')
  return `LibSQL failed to bind provided query parameters: \`${detail}\``
}
