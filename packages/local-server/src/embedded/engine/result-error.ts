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
