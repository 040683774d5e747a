import { type Outcome, TransportError } from '../base/errors.ts'

const outcomeOf = (isSent?: boolean): Outcome => (isSent ? 'unknown' : 'not_applied')

/**
 * The error of a request that got no answer.
 * @param isSent whether it may have reached the server @param message what went wrong, in place of what the platform says
 */
export function networkError(
  cause: unknown,
  origin: string,
  isSent: boolean,
  message = rootMessage(cause),
): TransportError {
  return new TransportError('NETWORK', `no answer from ${origin}: ${message}`, outcomeOf(isSent), cause)
}

/** fetch hides the reason one or two levels down. An error may have itself as its cause. */
function rootMessage(error: unknown): string {
  let root = error
  for (let depth = 0; depth < 5; depth++) {
    const { cause, errors } = (root ?? {}) as { cause?: unknown; errors?: unknown[] }
    const inner = cause ?? errors?.[0]
    if (!(inner instanceof Error)) break
    root = inner
  }
  return root instanceof Error ? root.message : String(root)
}

/** @param remedy what to look at, behind a space */
export function timeoutError(
  timeoutMs: number | undefined,
  origin: string,
  isSent?: boolean,
  remedy = '',
): TransportError {
  const message = `no answer from ${origin} within ${timeoutMs} ms${remedy}`
  return new TransportError('TIMEOUT', message, outcomeOf(isSent))
}

/** The error of a call that comes too late, or was under way. */
export const closedError = (mayHaveRun?: boolean): TransportError =>
  new TransportError('CLOSED', 'the client is closed', outcomeOf(mayHaveRun))

export function queueFull(limit: number): TransportError {
  return new TransportError('QUEUE_FULL', `${limit} calls wait already (queueLimit)`, 'not_applied')
}
