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

/** What an error counts towards the limit of an answer: libsql-server counts it in the words of its own log. */
export function countedSize({ code, message }: ResultError, sql: string): number {
  const bytes = Buffer.byteLength(message)
  // `no such column: x (at offset 7)` is `no such column: x in SELECT x at offset 7` there
  if (code === 'SQL_INPUT_ERROR')
    return bytes - 'SQL input error: ()'.length + ' in '.length + Buffer.byteLength(sql)
  if (code === 'ARGS_INVALID') return bytes + 12 // another beginning of the sentence
  return message.startsWith('SQLite error: ') ? bytes - 'SQLite error: '.length : bytes
}
