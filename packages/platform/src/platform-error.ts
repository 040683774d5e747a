/** Whether a failed call took effect: certainly not, or this cannot be known here. */
export type Outcome = 'not_applied' | 'unknown'

/** What a PlatformError is made from. */
export type PlatformErrorDetails = Pick<PlatformError, 'code' | 'method' | 'path' | 'outcome'> &
  Partial<Omit<PlatformError, keyof Error>> & { readonly message: string; readonly cause?: unknown }

/**
 * A call to the platform API failed. No part of it holds a token: what looks like one is replaced by `[token]`.
 * Mistakes of the caller are TypeErrors instead, before anything is sent.
 */
export class PlatformError extends Error {
  override readonly name = 'PlatformError'
  /**
   * What went wrong:
   *
   * - `HTTP_STATUS`: the service, or a proxy before it, refused or failed; `status` says which
   * - `NETWORK`: the connection failed, there is no answer
   * - `TIMEOUT`: the time of the call was over
   * - `ABORTED`: the signal ended the call; its reason is the `cause`
   * - `DECODE`: the service answered that it went well, with a body that is not the documented one
   * - `MISMATCH`: `ensure()` found a resource of that name which is not as asked for
   */
  readonly code: 'HTTP_STATUS' | 'NETWORK' | 'TIMEOUT' | 'ABORTED' | 'DECODE' | 'MISMATCH'
  readonly method: string
  /** Path with its query, without the base URL. */
  readonly path: string
  /** HTTP status; null when there was no answer. */
  readonly status: number | null
  /** The service's own code, such as `group_sleeping`; null when it gave none. */
  readonly serverCode: string | null
  /** The service's own words, without method and path; null when it said nothing. */
  readonly reason: string | null
  /** Whether the call may have taken effect all the same: `unknown` means look before you repeat it. */
  readonly outcome: Outcome
  /** Id that the service, or a proxy before it, gave the request; null when there is none. */
  readonly requestId: string | null
  /** How long the service asks to wait, in ms; null when it does not say. */
  readonly retryAfterMs: number | null
  // not fields: a printed error does not show them
  readonly #headers: Readonly<Record<string, string>>
  readonly #body: string | null

  constructor({ message, ...details }: PlatformErrorDetails) {
    super(message, 'cause' in details ? { cause: details.cause } : {})
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

  /** Headers of the answer by their names in lower case; none when there was no answer. */
  get headers(): Readonly<Record<string, string>> {
    return this.#headers
  }

  /** What the service wrote, at most 4,096 characters; null when there was no answer. */
  get body(): string | null {
    return this.#body
  }
}

/** Whether a create was refused because there is one already: HTTP 409, or 400 in such words. */
export const isAlreadyExists = (error: unknown): boolean =>
  error instanceof PlatformError &&
  (error.status === 409 || (error.status === 400 && /already exists/i.test(error.reason ?? '')))

/**
 * Whether there is nothing of the name that the path ends with: HTTP 404 in the service's own words, which are JSON, and not
 * about the organization before it.
 */
export const isNotFound = (error: unknown): boolean =>
  error instanceof PlatformError &&
  error.status === 404 &&
  error.reason !== null &&
  !/^organization not found/i.test(error.reason)
