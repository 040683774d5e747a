export type FailureContentType = 'text/plain' | 'text/plain; charset=utf-8' | 'application/json'

/** Ends a whole pipeline and its stream. The body is one of the service's three shapes, told apart by content type. */
export class PipelineFailure extends Error {
  readonly status: number
  readonly contentType: FailureContentType
  readonly body: string
  /** What is wrong with the baton; null where it is something else. */
  readonly lostStream: string | null

  private constructor(
    status: number,
    contentType: FailureContentType,
    body: string,
    lostStream: string | null = null,
  ) {
    super(body)
    this.status = status
    this.contentType = contentType
    this.body = body
    this.lostStream = lostStream
  }

  /** The client broke the protocol: a bare sentence. */
  static protocol(sentence: string): PipelineFailure {
    return new PipelineFailure(400, 'text/plain', sentence)
  }

  /** A query of a URL that is not understood. */
  static query(reason: string): PipelineFailure {
    const sentence = `Failed to deserialize query string: ${reason}`
    return new PipelineFailure(400, 'text/plain; charset=utf-8', sentence)
  }

  /** Anything else: `{"error"}`. */
  static service(status: number, error: string): PipelineFailure {
    return new PipelineFailure(status, 'application/json', JSON.stringify({ error }))
  }

  /** The stream was idle for too long: `{"message","code"}`. */
  static expired(): PipelineFailure {
    const body = { message: 'The stream has expired due to inactivity', code: 'STREAM_EXPIRED' }
    return new PipelineFailure(400, 'application/json', JSON.stringify(body), body.message)
  }

  /** There is no such stream. */
  static invalidBaton(): PipelineFailure {
    return PipelineFailure.#ofBaton('Received an invalid baton')
  }

  /** The stream has gone on, or a request works on it. */
  static usedBaton(): PipelineFailure {
    return PipelineFailure.#ofBaton('Received a baton that has already been used')
  }

  static #ofBaton(sentence: string): PipelineFailure {
    return new PipelineFailure(400, 'text/plain', sentence, sentence)
  }
}
