import { TransportError } from '../errors.ts'

// Failures that happen before a byte of the request has left.
const NEVER_SENT = [
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENETUNREACH',
  'EHOSTUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]

/** The error of a request that got no answer. @param started whether it may have reached the server */
export function networkError(cause: unknown, origin: string, started: boolean): TransportError {
  const root = rootCause(cause) as { code?: string; message?: string } | null
  const code = root?.code ?? ''
  return new TransportError(
    'NETWORK',
    `no answer from ${origin}: ${root?.message || code}`,
    started && !NEVER_SENT.includes(code) ? 'unknown' : 'not_applied',
    cause,
  )
}

// fetch hides the reason one or two levels down
function rootCause(error: unknown): unknown {
  const inner =
    (error as { cause?: unknown } | null)?.cause ?? (error as { errors?: unknown[] } | null)?.errors?.[0]
  return inner instanceof Error ? rootCause(inner) : error
}

export function timeoutError(timeoutMs: number, origin: string, started: boolean): TransportError {
  return new TransportError(
    'TIMEOUT',
    `no answer from ${origin} within ${timeoutMs} ms`,
    started ? 'unknown' : 'not_applied',
  )
}

export function closedError(): TypeError {
  return new TypeError('the client is closed')
}
