export type FailureContentType = 'text/plain' | 'text/plain; charset=utf-8' | 'application/json'

/**
 * An error that fails a whole pipeline and closes its stream. Its body has one of the service's three formats, depending on its
 * content type.
 */
export class PipelineFailure extends Error {
  readonly status: number
  readonly contentType: FailureContentType
  readonly body: string
  /** The error of an invalid baton; null for other errors. */
  readonly batonError: string | null

  private constructor(
    status: number,
    contentType: FailureContentType,
    body: string,
    batonError: string | null = null,
  ) {
    super(body)
    this.status = status
    this.contentType = contentType
    this.body = body
    this.batonError = batonError
  }

  /** Returns the error for a violation of the protocol, as a plain sentence. */
  static protocol(sentence: string): PipelineFailure {
    return new PipelineFailure(400, 'text/plain', sentence)
  }

  static query(reason: string): PipelineFailure {
    const sentence = `Failed to deserialize query string: ${reason}`
    return new PipelineFailure(400, 'text/plain; charset=utf-8', sentence)
  }

  /** Returns any other error, as `{"error"}`. */
  static service(status: number, error: string): PipelineFailure {
    return new PipelineFailure(status, 'application/json', JSON.stringify({ error }))
  }

  /** Returns the error for a stream that was idle for too long, as `{"message","code"}`. */
  static expired(): PipelineFailure {
    const body = { message: 'The stream has expired due to inactivity', code: 'STREAM_EXPIRED' }
    return new PipelineFailure(400, 'application/json', JSON.stringify(body), body.message)
  }

  /** Returns the error for an unknown stream. */
  static invalidBaton(): PipelineFailure {
    return PipelineFailure.#forBaton('Received an invalid baton')
  }

  /** Returns the error for a baton that was already used, or whose stream has a request in flight. */
  static usedBaton(): PipelineFailure {
    return PipelineFailure.#forBaton('Received a baton that has already been used')
  }

  static #forBaton(sentence: string): PipelineFailure {
    return new PipelineFailure(400, 'text/plain', sentence, sentence)
  }
}
