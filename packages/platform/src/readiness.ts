import { CALL_OPTIONS, checkOptions } from './check-options.ts'
import type { PlatformCallOptions, PlatformFetch } from './config.ts'
import { PlatformError } from './platform-error.ts'
import { TimeLimit } from './time-limit.ts'
import type { DatabaseToken } from './token.ts'

export interface WaitUntilReadyOptions extends PlatformCallOptions {
  /**
   * Token of the database, for servers that ask for one before they look whether there is such a database. Without it an
   * answer that asks for one (401) counts as ready.
   */
  readonly authToken?: DatabaseToken | (() => DatabaseToken | Promise<DatabaseToken>) | undefined
}

/** Waits between two looks, in ms: doubling, from the first to the last. */
const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 1_000

/** Asks for nothing and leaves nothing behind, by the route that a client uses. */
const CLOSE = '{"requests":[{"type":"close"}]}'

/** URL of a database by the `hostname` that the service gave it: `http` on this machine, `https` elsewhere. */
export function databaseUrl(hostname: string): string {
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]|[^/]*\.localhost)(:|\/|$)/.test(hostname)
  return `${isLocal ? 'http' : 'https'}://${hostname}`
}

/** Waits until a database answers at its own host. */
export async function waitForDatabase(
  { fetch }: { readonly fetch: PlatformFetch },
  hostname: string,
  options: WaitUntilReadyOptions,
): Promise<void> {
  checkOptions(options, { ...CALL_OPTIONS, authToken: 'string or function' })
  const { signal, timeoutMs = 30_000, authToken } = options
  const path = `${databaseUrl(hostname)}/v2/pipeline`
  const ended = (code: 'TIMEOUT' | 'ABORTED', message: string, more = {}): PlatformError =>
    new PlatformError({ code, message, method: 'POST', path, outcome: 'not_applied', ...more })
  let last = 'no answer'
  const late = (): PlatformError =>
    ended('TIMEOUT', `the database at ${hostname} is not ready after ${timeoutMs} ms: ${last}`)
  const aborted = (cause: unknown): PlatformError =>
    ended('ABORTED', 'the wait for the database was aborted', { cause })

  const limit = new TimeLimit({ timeoutMs, signal, late, aborted })
  const look = async (sending: AbortSignal): Promise<number> => {
    const token = typeof authToken === 'function' ? await authToken() : authToken
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const headers = { 'content-type': 'application/json', ...authorization }
    const sent = { method: 'POST', headers, body: CLOSE, signal: sending, redirect: 'manual' } as const
    const answer = await fetch(path, sent).catch(() => null)
    await answer?.text().catch(() => {}) // to its end, so that the connection is free
    return answer?.status ?? 0
  }
  try {
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
      const status = await limit.within(look)
      if (status > 0 && status !== 404 && status < 500) return
      last = status === 0 ? 'no answer' : `HTTP ${status}`
      if (waitMs >= limit.leftMs) throw late()
      await limit.wait(waitMs)
    }
  } finally {
    limit.stop()
  }
}
