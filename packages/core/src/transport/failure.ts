import { type DatabaseOutcome, messageOf, TransportError } from '../base/errors.ts'

const toOutcome = (isSent?: boolean): DatabaseOutcome => (isSent ? 'unknown' : 'not_applied')

/**
 * Returns the error of a request without a response.
 * @param isSent whether it may have reached the server
 * @param message replaces the platform's message
 */
export function networkError(
  cause: unknown,
  origin: string,
  isSent: boolean,
  message = rootMessage(cause),
): TransportError {
  return new TransportError('NETWORK', `no response from ${origin}: ${message}`, toOutcome(isSent), cause)
}

/** Returns the innermost message: fetch hides the reason one or two levels deep. An error may be its own cause. */
function rootMessage(error: unknown): string {
  let root = error
  for (let depth = 0; depth < 5; depth++) {
    const { cause, errors } = (root ?? {}) as { cause?: unknown; errors?: unknown[] }
    const inner = cause ?? errors?.[0]
    if (!(inner instanceof Error)) break
    root = inner
  }
  return messageOf(root)
}

/** Returns the error of a timeout. @param remedy appended to the message */
export function timeoutError(
  timeoutMs: number | undefined,
  origin: string,
  isSent?: boolean,
  remedy = '',
): TransportError {
  const message = `no response from ${origin} within ${timeoutMs} ms${remedy}`
  return new TransportError('TIMEOUT', message, toOutcome(isSent))
}

/** Returns the error of a call made, or still pending, after the client was closed. */
export const closedError = (mayHaveRun?: boolean): TransportError =>
  new TransportError('CLOSED', 'the client is closed', toOutcome(mayHaveRun))

export function queueFullError(limit: number): TransportError {
  return new TransportError('QUEUE_FULL', `${limit} calls are already queued (queueLimit)`, 'not_applied')
}
