/** The last events as JSON texts, as many as fit. */
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
    // moved seldom, so that an event costs the same whatever the size
    if (this.#first > this.#maxEvents) {
      this.#events = this.#events.slice(this.#first)
      this.#first = 0
    }
  }

  /** From the oldest to the newest. */
  get all(): readonly string[] {
    return this.#events.slice(this.#first)
  }

  get #size(): number {
    return this.#events.length - this.#first
  }
}
