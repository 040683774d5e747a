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
export interface PlatformCall<T> extends Promise<T> {
  /** The data together with status, headers and request id. */
  withResponse(): Promise<Answered<T>>
}

export function callOf<T>(answered: Promise<Answered<T>>): PlatformCall<T> {
  const call = answered.then(({ data }) => data)
  const withResponse = (): Promise<Answered<T>> => {
    call.catch(() => {}) // the promise that is asked for here reports a failure
    return answered
  }
  return Object.assign(call, { withResponse })
}
