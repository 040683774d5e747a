/** Whether a failed call took effect: certainly not, or unknown. */
export type PlatformOutcome = 'not_applied' | 'unknown'

/** Properties of a new PlatformError; those that are omitted are null or empty. */
export type PlatformErrorDetails = Pick<PlatformError, 'message' | 'code' | 'method' | 'path' | 'outcome'> &
  Partial<
    Pick<
      PlatformError,
      'status' | 'serverCode' | 'reason' | 'requestId' | 'retryAfterMs' | 'headers' | 'body' | 'cause'
    >
  >

/**
 * A failed call to the platform API. It contains no token: the call replaces everything that looks like one with `[token]`.
 * Invalid arguments are reported as TypeErrors, before anything is sent.
 */
export class PlatformError extends Error {
  override readonly name = 'PlatformError'
  /**
   * What went wrong:
   *
   * - `HTTP_STATUS`: the service, or a proxy in front of it, responded with an error; see `status`
   * - `NETWORK`: the connection failed; there is no response
   * - `TIMEOUT`: the timeout of the call has elapsed
   * - `ABORTED`: the call was aborted by its signal, whose reason is the `cause`
   * - `DECODE`: the service reported success, with a body that is not the documented one
   * - `MISMATCH`: `ensure()` found a resource of that name that differs from the request
   */
  readonly code: 'HTTP_STATUS' | 'NETWORK' | 'TIMEOUT' | 'ABORTED' | 'DECODE' | 'MISMATCH'
  readonly method: string
  /** Path with query, without the base URL. The whole URL if a database was waited for. */
  readonly path: string
  /** HTTP status; null if there was no response. */
  readonly status: number | null
  /** The service's error code, such as `group_sleeping`; null if it sent none. */
  readonly serverCode: string | null
  /** The service's error message, without method and path; null if it sent none. */
  readonly reason: string | null
  /** Whether the call may have been applied: for `unknown`, check before you repeat it. */
  readonly outcome: PlatformOutcome
  /** Id of the request from the service, or from a proxy in front of it; null if there is none. */
  readonly requestId: string | null
  /** Delay that the service requests before a retry, in ms; null if there is none. */
  readonly retryAfterMs: number | null
  // private, with getters, so that a printed error does not show them
  readonly #headers: Readonly<Record<string, string>>
  readonly #body: string | null

  constructor({ message, ...details }: PlatformErrorDetails) {
    super(message, details.cause === undefined ? {} : { cause: details.cause })
    this.code = details.code
    this.method = details.method
    this.path = details.path
    this.outcome = details.outcome
    this.status = details.status ?? null
    this.serverCode = details.serverCode ?? null
    this.reason = details.reason ?? null
    this.requestId = details.requestId ?? null
    this.retryAfterMs = details.retryAfterMs ?? null
    this.#headers = details.headers ?? {}
    this.#body = details.body ?? null
  }

  /** Response headers with names in lower case; empty if there was no response. */
  get headers(): Readonly<Record<string, string>> {
    return this.#headers
  }

  /** Response text, at most 4,096 characters; null if there was no response. */
  get body(): string | null {
    return this.#body
  }
}

/** Returns the result of a step after a write. If the step fails, its outcome is unknown, because the write was or may have been applied. */
export async function afterWrite<T>(step: PromiseLike<T>): Promise<T> {
  try {
    return await step
  } catch (error) {
    throw error instanceof PlatformError ? Object.assign(error, { outcome: 'unknown' }) : error
  }
}

/** Whether a creation was rejected because the resource already exists: HTTP 409, or 400 with a message that says so. */
export const isAlreadyExists = (error: unknown): boolean =>
  error instanceof PlatformError &&
  (error.status === 409 || (error.status === 400 && /already exists/i.test(error.reason ?? '')))

/**
 * Whether the resource at the end of the path does not exist: HTTP 404 with the service's own JSON, unless the message says that
 * the organization was not found.
 */
export const isNotFound = (error: unknown): boolean =>
  error instanceof PlatformError &&
  error.status === 404 &&
  // null unless the body is the service's JSON
  error.reason !== null &&
  !/^organization not found/i.test(error.reason)
