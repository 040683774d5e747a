/** What a client has learnt about its server; its calls and streams share it. */
export class ServerState {
  /** False once the server has shown that it has no `/v3/pipeline`. */
  hasV3: boolean | undefined
  readonly #isIgnored: boolean
  #index: bigint | null

  /** @param minimum index to begin with @param readYourWrites whether indexes are of interest at all */
  constructor(minimum: string | number | bigint | undefined, readYourWrites: boolean) {
    this.#index = minimum === undefined ? null : BigInt(minimum)
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
}
