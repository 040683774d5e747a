/**
 * Returns the error for a feature of the service that this server does not support: 501 for a route, 400 for a value in a
 * request, always with the code `not_supported`.
 */
export function notSupported(reason: string, status: 400 | 501 = 400): ApiError {
  return new ApiError(status, reason, 'not_supported')
}

/** Rejects a request; sent as `{ error, code? }` with the status. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly status: number
  readonly code: string | undefined

  constructor(status: number, message: string, code?: string) {
    super(message)
    this.status = status
    this.code = code
  }
}
