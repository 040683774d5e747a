import { type Outcome, TransportError } from '../errors.ts'

const outcomeOf = (isSent: boolean): Outcome => (isSent ? 'unknown' : 'not_applied')

/**
 * The error of a request that got no answer.
 * @param isSent whether it may have reached the server @param remedy what to do, in brackets behind a space
 */
export function networkError(cause: unknown, origin: string, isSent: boolean, remedy = ''): TransportError {
  return new TransportError(
    'NETWORK',
    `no answer from ${origin}: ${rootMessage(cause)}${remedy}`,
    outcomeOf(isSent),
    cause,
  )
}

/** fetch hides the reason one or two levels down. An error may have itself as its cause. */
export function rootMessage(error: unknown): string {
  let root = error
  for (let depth = 0; depth < 5; depth++) {
    const { cause, errors } = (root ?? {}) as { cause?: unknown; errors?: unknown[] }
    const inner = cause ?? errors?.[0]
    if (!(inner instanceof Error)) break
    root = inner
  }
  return root instanceof Error ? root.message : String(root)
}

export function timeoutError(timeoutMs: number, origin: string, isSent: boolean): TransportError {
  return new TransportError('TIMEOUT', `no answer from ${origin} within ${timeoutMs} ms`, outcomeOf(isSent))
}

const CLOSED = 'the client is closed'

/** For a call that comes too late. */
export const closedError = (): TypeError => new TypeError(CLOSED)

/** For a call that was under way. */
export const cutError = (outcome: Outcome): TransportError => new TransportError('CLOSED', CLOSED, outcome)

export function queueFull(limit: number): TransportError {
  return new TransportError('QUEUE_FULL', `${limit} calls wait already (queueLimit)`, 'not_applied')
}
