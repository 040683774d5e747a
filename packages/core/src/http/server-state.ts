import { REPLICA_WAIT_MS } from '../limits.ts'

/** What a client has learnt about its server; its calls and streams share it. */
export class ServerState {
  /** False once the server has shown that it has no `/v3/pipeline`. */
  hasV3: boolean | undefined
  readonly #isIgnored: boolean
  #index: bigint | null
  /** The question whether the server is behind an index, and until when its answer is good. */
  #asked: { readonly index: string; readonly answer: Promise<boolean>; until: number } | undefined

  /** @param minimum index to begin with @param readYourWrites whether indexes are of interest at all */
  constructor(minimum: string | number | bigint | undefined, readYourWrites: boolean) {
    this.#index = minimum === undefined || !readYourWrites ? null : BigInt(minimum)
    this.#isIgnored = !readYourWrites
  }

  /** Newest state of the database that was seen: replicas wait for it, so that one reads what one has written. */
  get replicationIndex(): string | null {
    return this.#index === null ? null : String(this.#index)
  }

  /** Takes note of the index in an answer. */
  sawIndex(index: string | number | null | undefined): void {
    if (this.#isIgnored || !/^\d+$/.test(String(index))) return
    const seen = BigInt(index as string)
    if (this.#index === null || seen > this.#index) this.#index = seen
  }

  /** Forgets an index that the database will not come to. */
  dropIndex(index: string): void {
    if (this.replicationIndex === index) this.#index = null
  }

  /** Whether an index was in use before and is not any more; the index only grows otherwise. */
  hasDropped(index: string): boolean {
    return this.#index === null || this.#index < BigInt(index)
  }

  /**
   * Asks whether the server is behind an index, once for all who wait for it. A later wait begins after the answer and
   * takes as long as that is good: it gets one of its own.
   */
  isBehind(index: string, ask: (index: string) => Promise<boolean>): Promise<boolean> {
    if (this.#asked?.index === index && performance.now() < this.#asked.until) return this.#asked.answer
    const answer = ask(index)
    const asked = { index, answer, until: Infinity }
    this.#asked = asked
    void answer.then(() => {
      asked.until = performance.now() + REPLICA_WAIT_MS
    })
    return answer
  }
}
