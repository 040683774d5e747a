/** Attributes of a response. */
export interface PlatformResponse {
  /** HTTP status. */
  readonly status: number
  /** Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Id of the request from the service, or from a proxy in front of it; null if there is none. */
  readonly requestId: string | null
  /** Number of attempts, from 1. */
  readonly attempts: number
}

/** The data of a call, and the response that contained it. */
export interface CallResult<T> {
  readonly data: T
  readonly response: PlatformResponse
}

/** A call in flight: a promise of its data, which also gives access to the response. */
export interface PlatformCall<T> extends Promise<T> {
  /** Returns the data with status, headers and request id. */
  withResponse(): Promise<CallResult<T>>
}

/** Starts a call. If that throws, as for an invalid argument, returns a call that rejects with the error. */
export function startCall<T>(start: () => PlatformCall<T>): PlatformCall<T> {
  try {
    return start()
  } catch (error) {
    return rejectCall(error)
  }
}

/** Returns a call that fails without a request. */
export const rejectCall = (reason: unknown): PlatformCall<never> =>
  toPlatformCall<never>(Promise.reject(reason))

/** Adds `withResponse` to a promise of the data. */
export function toPlatformCall<T>(result: Promise<CallResult<T>>): PlatformCall<T> {
  const call = result.then(({ data }) => data)
  const withResponse = (): Promise<CallResult<T>> => {
    call.catch(() => {}) // the promise that is returned here reports the error
    return result
  }
  return Object.assign(call, { withResponse })
}
