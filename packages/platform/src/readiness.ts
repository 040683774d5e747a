import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import type { PlatformCallOptions, PlatformFetch } from './config.ts'
import { PlatformError } from './platform-error.ts'
import { TimeLimit } from './time-limit.ts'
import type { DatabaseToken } from './token.ts'

export interface WaitUntilReadyOptions extends PlatformCallOptions {
  /**
   * Token for the database, for servers that require one before they check whether the database exists. Without it, a 401 response
   * counts as ready.
   */
  readonly authToken?: DatabaseToken | (() => DatabaseToken | Promise<DatabaseToken>) | undefined
}

/** First and longest delay between two checks, in ms; doubled each time. */
const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 1_000

/** A request without effect, on the route that clients use. */
const CLOSE = '{"requests":[{"type":"close"}]}'

/**
 * Returns the URL of a database from its `hostname`: `http` on this machine, `https` elsewhere. A path ends with a slash, because
 * other clients drop the last segment of a path without one.
 */
export const databaseUrl = (hostname: string): string =>
  baseUrl(hostname).replace(/(?<!\/)(\/[^/]+)+$/, '$&/')

function baseUrl(hostname: string): string {
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]|[^/]*\.localhost)(:|\/|$)/.test(hostname)
  return `${isLocal ? 'http' : 'https'}://${hostname}`
}

/** Waits until a database responds at its host. */
export async function waitForDatabase(
  { fetch }: { readonly fetch: PlatformFetch },
  hostname: string,
  options: WaitUntilReadyOptions,
): Promise<void> {
  checkOptions(options, { ...CALL_OPTIONS, authToken: 'string or function' })
  const { signal, timeoutMs = 30_000, authToken } = options
  const path = `${baseUrl(hostname)}/v2/pipeline`
  const failure = (code: 'TIMEOUT' | 'ABORTED', message: string, details = {}): PlatformError =>
    new PlatformError({ code, message, method: 'POST', path, outcome: 'not_applied', ...details })
  let lastStatus = 'no response'
  const onTimeout = (): PlatformError =>
    failure('TIMEOUT', `the database at ${hostname} is not ready after ${timeoutMs} ms: ${lastStatus}`)
  const onAbort = (cause: unknown): PlatformError =>
    failure('ABORTED', 'the wait for the database was aborted', { cause })

  const limit = new TimeLimit({ timeoutMs, signal, onTimeout, onAbort })
  const probe = async (probeSignal: AbortSignal): Promise<number> => {
    const token = typeof authToken === 'function' ? await authToken() : authToken
    const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const headers = { 'content-type': 'application/json', ...authorization }
    const init = { method: 'POST', headers, body: CLOSE, signal: probeSignal, redirect: 'manual' } as const
    const response = await fetch(path, init).catch(() => null)
    await response?.text().catch(() => {}) // read completely, to release the connection
    return response?.status ?? 0
  }
  try {
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
      const status = await limit.within(probe)
      if (status > 0 && status !== 404 && status < 500) return
      lastStatus = status === 0 ? 'no response' : `HTTP ${status}`
      if (waitMs >= limit.remainingMs) throw onTimeout()
      await limit.wait(waitMs)
    }
  } finally {
    limit.stop()
  }
}
