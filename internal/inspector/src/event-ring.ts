/** Keeps the latest events as JSON strings, up to a maximum number and total length. */
export class EventRing {
  readonly #maxEvents: number
  readonly #maxCharacters: number
  #events: string[] = []
  #first = 0
  #characters = 0

  constructor(maxEvents: number, maxCharacters: number) {
    this.#maxEvents = maxEvents
    this.#maxCharacters = maxCharacters
  }

  add(event: string): void {
    this.#events.push(event)
    this.#characters += event.length
    while (this.#size > this.#maxEvents || (this.#characters > this.#maxCharacters && this.#size > 1)) {
      this.#characters -= this.#events[this.#first]?.length ?? 0
      this.#events[this.#first] = ''
      this.#first += 1
    }
    // removed in bulk, so that the cost of adding an event does not depend on their number
    if (this.#first > this.#maxEvents) {
      this.#events = this.#events.slice(this.#first)
      this.#first = 0
    }
  }

  /** All events, oldest first. */
  get events(): readonly string[] {
    return this.#events.slice(this.#first)
  }

  get #size(): number {
    return this.#events.length - this.#first
  }
}
