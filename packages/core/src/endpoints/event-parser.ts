import { ProtocolError } from '../base/errors.ts'

export interface ServerSentEvent {
  /** `message` if the server sends none. */
  readonly event: string
  readonly data: string
}

/** Maximum length of an incomplete event, in characters; a database sends only short events. */
const MAX_LENGTH = 1_000_000
const FIELD = /^(?:event|data|id|retry)?(?::|$)/

/** Parses server-sent events from parts of a body. Ignores comments, which keep the connection open. */
export class EventParser {
  readonly #decoder = new TextDecoder()
  /** A line that has not ended. A line may arrive in many parts; each part is searched only once. */
  #line = ''
  /** A CR at the end of the last part, which may be the first half of a line end. */
  #carriageReturn = ''
  #event = ''
  #data: string[] = []
  #dataLength = 0;

  /**
   * Yields, for each line that ends in this part, the event that it completes; null if it completes none.
   * @throws ProtocolError for text that is not an event stream, or an event that is too long
   */
  *push(part: Uint8Array): Generator<ServerSentEvent | null, void, undefined> {
    const text = this.#carriageReturn + this.#decoder.decode(part, { stream: true })
    this.#carriageReturn = text.endsWith('\r') ? '\r' : ''
    const [rest = '', ...lines] = text.slice(0, text.length - this.#carriageReturn.length).split(/\r\n|\n|\r/)
    lines.unshift(this.#line + rest)
    this.#line = lines.pop() as string
    for (const line of lines) yield this.#read(line)
    if (this.#line.length + this.#event.length + this.#dataLength > MAX_LENGTH)
      throw new ProtocolError('server-sent event too large')
  }

  #read(line: string): ServerSentEvent | null {
    if (line === '') return this.#finish()
    // otherwise an HTML page would produce no events
    if (!FIELD.test(line)) throw new ProtocolError('the response is not an event stream')
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (name === 'event') this.#event = value
    else if (name === 'data') {
      this.#data.push(value)
      this.#dataLength += value.length + 1
    }
    return null
  }

  #finish(): ServerSentEvent | null {
    const event = { event: this.#event || 'message', data: this.#data.join('\n') }
    const isEmpty = this.#data.length === 0
    this.#event = ''
    this.#data = []
    this.#dataLength = 0
    return isEmpty ? null : event
  }
}
