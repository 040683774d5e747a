/** What came with an answer. */
export interface PlatformResponse {
  readonly status: number
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Id that the service, or a proxy before it, gave the request; null when there is none. */
  readonly requestId: string | null
  /** How often it was sent, from 1. */
  readonly attempts: number
}

export interface Answered<T> {
  readonly data: T
  readonly response: PlatformResponse
}

/** A call under way: a promise of its data, which can give the answer's headers, too. */
export class PlatformCall<T> extends Promise<T> {
  #answered: Promise<Answered<T>> | null = null

  /** What `then` makes is a plain promise. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  static of<T>(answered: Promise<Answered<T>>): PlatformCall<T> {
    const call = new PlatformCall<T>((resolve, reject) => {
      answered.then(({ data }) => resolve(data), reject)
    })
    call.#answered = answered
    return call
  }

  /** The data together with status, headers and request id. */
  withResponse(): Promise<Answered<T>> {
    // whoever asks for the answer hears of its failure there
    this.catch(() => {})
    return this.#answered as Promise<Answered<T>>
  }

  /** The same call, which ends when something is done with its data. */
  andThen(action: (data: T) => Promise<unknown>): PlatformCall<T> {
    return PlatformCall.of(
      this.withResponse().then(async (answered) => {
        await action(answered.data)
        return answered
      }),
    )
  }
}
