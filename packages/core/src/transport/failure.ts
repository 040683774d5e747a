import { TransportError } from '../errors.ts'

/** The error of a request that got no answer. @param sent whether it may have reached the server */
export function networkError(cause: unknown, origin: string, sent: boolean): TransportError {
  const { message } = rootCause(cause) as Error
  return new TransportError(
    'NETWORK',
    `no answer from ${origin}: ${message}`,
    sent ? 'unknown' : 'not_applied',
    cause,
  )
}

/** fetch hides the reason one or two levels down. */
function rootCause(error: unknown): unknown {
  const inner = (error as { cause?: unknown }).cause ?? (error as { errors?: unknown[] }).errors?.[0]
  return inner instanceof Error ? rootCause(inner) : error
}

export function timeoutError(timeoutMs: number, origin: string, sent: boolean): TransportError {
  return new TransportError(
    'TIMEOUT',
    `no answer from ${origin} within ${timeoutMs} ms`,
    sent ? 'unknown' : 'not_applied',
  )
}

export function closedError(): TypeError {
  return new TypeError('the client is closed')
}

export function queueFull(limit: number): TransportError {
  return new TransportError('QUEUE_FULL', `${limit} calls wait already (queueLimit)`, 'not_applied')
}
