import { redact } from './token.ts'

/** Error codes of runtimes for connections that were never made. */
const NOT_CONNECTED_CODES =
  /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused)$/

/**
 * Returns a failure of `fetch` and its causes, which are nested one or two levels deep. The depth is limited, because an error may be
 * its own cause.
 */
function listCauses(failure: unknown): readonly unknown[] {
  const causes = [failure]
  for (let depth = 0; depth < 5; depth++) {
    const { cause, errors } = (causes.at(-1) ?? {}) as { cause?: unknown; errors?: unknown[] }
    const inner = cause ?? errors?.[0]
    if (!(inner instanceof Error)) break
    causes.push(inner)
  }
  return causes
}

/** Whether a failure of `fetch` means that no connection was made, so that nothing can have arrived. */
export const wasNeverConnected = (failure: unknown): boolean =>
  listCauses(failure).some((error) => {
    const { code, syscall } = (error ?? {}) as { code?: unknown; syscall?: unknown }
    // a host can also become unreachable during a connection, after the request was sent
    const isDuringConnection = String(code).endsWith('UNREACH') && syscall !== 'connect'
    return NOT_CONNECTED_CODES.test(String(code)) && !isDuringConnection
  })

/**
 * Describes a failure of `fetch` without the token that was sent. The failure itself must not become the cause of an error, because
 * printing it may show the request, including the token.
 */
export function describeFailure(failure: unknown, token: string): string {
  return redact(messageOf(listCauses(failure).at(-1)), token)
}

/** Returns the message of whatever was thrown: also of an error of another realm, and of an object that has no `toString`. */
export function messageOf(thrown: unknown): string {
  const { message } = Object(thrown) as { message?: unknown }
  if (typeof message === 'string') return message
  try {
    return String(thrown)
  } catch {
    return {}.toString.call(thrown)
  }
}
