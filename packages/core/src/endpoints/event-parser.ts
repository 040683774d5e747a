import { ProtocolError } from '../base/errors.ts'

/** One server-sent event. */
export interface ServerSentEvent {
  /** `message` if the server sends none. */
  readonly event: string
  readonly data: string
}

/** Maximum length of an incomplete line, in characters; a database sends only short events. */
const MAX_LENGTH = 1_000_000
const FIELD = /^(?:event|data|id|retry)?(?::|$)/

/** Parses server-sent events from chunks of text. Ignores comments, which keep the connection open. */
export class EventParser {
  readonly #decoder = new TextDecoder()
  #text = ''
  #event = ''
  #data: string[] = []

  /** @returns the events that end in this chunk @throws ProtocolError for other text, or an event that is too long */
  push(part: Uint8Array): ServerSentEvent[] {
    this.#text += this.#decoder.decode(part, { stream: true })
    const lines = this.#text.split(/\r\n|\n|\r(?!$)/)
    this.#text = lines.pop() as string
    if (this.#text.length > MAX_LENGTH) throw new ProtocolError('server-sent event too large')
    return lines.flatMap((line) => this.#read(line) ?? [])
  }

  #read(line: string): ServerSentEvent | null {
    if (line === '') return this.#finish()
    // otherwise an HTML page would produce no events
    if (!FIELD.test(line)) throw new ProtocolError('the response is not an event stream')
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (name === 'event') this.#event = value
    else if (name === 'data') this.#data.push(value)
    return null
  }

  #finish(): ServerSentEvent | null {
    const event = { event: this.#event || 'message', data: this.#data.join('\n') }
    const isEmpty = this.#data.length === 0
    this.#event = ''
    this.#data = []
    return isEmpty ? null : event
  }
}
