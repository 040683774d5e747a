import type { Outcome } from '../base/errors.ts'

/** What a PlatformError is made from. */
export interface PlatformErrorDetails {
  readonly method: string
  readonly path: string
  readonly message: string
  readonly outcome: Outcome
  readonly status?: number | undefined
  readonly code?: string | null | undefined
  readonly reason?: string | null | undefined
  readonly requestId?: string | null | undefined
  readonly retryAfterMs?: number | null | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly body?: string | undefined
  readonly cause?: unknown
}

/**
 * A call to the platform API failed. No part of it holds a token: what looks like one is replaced by `[token]`.
 * Mistakes of the caller are TypeErrors instead, before anything is sent.
 */
export class PlatformError extends Error {
  override readonly name: string = 'PlatformError'
  readonly method: string
  /** Path with its query, without the base URL. */
  readonly path: string
  /** HTTP status; null when there was no answer. */
  readonly status: number | null
  /**
   * The service's own code, such as `group_sleeping`; without an answer `NETWORK`, `TIMEOUT` or `ABORTED`; for an answer
   * that makes no sense `DECODE`, for a resource that is not as asked `MISMATCH`. Null when the service gave none.
   */
  readonly code: string | null
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

  constructor(details: PlatformErrorDetails) {
    super(details.message, details.cause === undefined ? {} : { cause: details.cause })
    this.method = details.method
    this.path = details.path
    this.status = details.status ?? null
    this.code = details.code ?? null
    this.reason = details.reason ?? null
    this.outcome = details.outcome
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

/** HTTP 400: the service refuses what was sent. */
export class BadRequestError extends PlatformError {
  override readonly name = 'BadRequestError'
}

/** HTTP 401: the token is not valid, or of the wrong kind. */
export class UnauthorizedError extends PlatformError {
  override readonly name = 'UnauthorizedError'
}

/** HTTP 402: the plan does not include it. */
export class PaymentRequiredError extends PlatformError {
  override readonly name = 'PaymentRequiredError'
}

/** HTTP 403: the token may not do it. */
export class ForbiddenError extends PlatformError {
  override readonly name = 'ForbiddenError'
}

/** HTTP 404: there is no such thing, or the token may not know of it. */
export class NotFoundError extends PlatformError {
  override readonly name = 'NotFoundError'
}

/** HTTP 409: it exists already, or its state forbids it. See `isAlreadyExists`. */
export class ConflictError extends PlatformError {
  override readonly name = 'ConflictError'
}

/** HTTP 422: a value, such as a name, is not available. */
export class UnprocessableError extends PlatformError {
  override readonly name = 'UnprocessableError'
}

/** HTTP 429: too many requests, also after those that were sent again. */
export class RateLimitError extends PlatformError {
  override readonly name = 'RateLimitError'
}

/** HTTP 5xx: the service, or a proxy before it, failed. */
export class ServerError extends PlatformError {
  override readonly name = 'ServerError'
}

/** No answer: the connection failed. `outcome` says whether the request may have arrived. */
export class ConnectionError extends PlatformError {
  override readonly name = 'ConnectionError'
}

/** The time was over. `outcome` says whether the request may have arrived. */
export class TimeoutError extends PlatformError {
  override readonly name = 'TimeoutError'
}

/** The signal ended the call. Its reason is the `cause`; `outcome` says whether the request may have arrived. */
export class AbortedError extends PlatformError {
  override readonly name = 'AbortedError'
}

/** The service answered that it went well, with a body that is not the documented one. */
export class DecodeError extends PlatformError {
  override readonly name = 'DecodeError'
}

/** `ensure()` found a resource of that name which is not as asked for. */
export class MismatchError extends PlatformError {
  override readonly name = 'MismatchError'
}

const CLASSES: Readonly<Record<number, new (details: PlatformErrorDetails) => PlatformError>> = {
  400: BadRequestError,
  401: UnauthorizedError,
  402: PaymentRequiredError,
  403: ForbiddenError,
  404: NotFoundError,
  409: ConflictError,
  422: UnprocessableError,
  429: RateLimitError,
}

/** The error of an answer with a status other than 2xx. */
export function errorOfStatus(details: PlatformErrorDetails & { readonly status: number }): PlatformError {
  const { status } = details
  const Class = CLASSES[status] ?? (status >= 500 ? ServerError : PlatformError)
  return new Class(details)
}

/** Whether a create was refused because there is one already: HTTP 409, or 400 in such words. */
export function isAlreadyExists(error: unknown): boolean {
  if (error instanceof ConflictError) return true
  return error instanceof BadRequestError && /already exists/i.test(error.reason ?? '')
}

/**
 * Whether there is nothing of the name that the path ends with: a 404 that is not about the organization before it, and not
 * from somebody else than the service, whose words are JSON.
 */
export function isMissing(error: unknown): boolean {
  return (
    error instanceof NotFoundError && error.reason !== null && !/^organization not found/i.test(error.reason)
  )
}
