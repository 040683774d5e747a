import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import type { PlatformCallOptions, PlatformFetch } from './config.ts'
import { describeFailure } from './fetch-failure.ts'
import { PlatformError } from './platform-error.ts'
import { TimeLimit } from './time-limit.ts'
import { checkToken, type DatabaseToken } from './token.ts'

/** Options of a wait for a database. The timeout is that of the wait, by default 30,000 ms. */
export interface WaitUntilReadyOptions extends PlatformCallOptions {
  /**
   * Token for the database. Without it, servers that check the token first respond with 401, which counts as ready, before the
   * database exists.
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
 * @throws TypeError for anything but a host, with port and path if it has them
 */
export function databaseUrl(hostname: string): string {
  const url = baseUrl(hostname)
  return hostname.includes('/') && !hostname.endsWith('/') ? `${url}/` : url
}

const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d+)?(?:\/[^\s?#\\]*)?$/i

function baseUrl(hostname: string): string {
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]|[^/]*\.localhost)(:|\/|$)/.test(hostname)
  const url = `${isLocal ? 'http' : 'https'}://${hostname}`
  if (typeof hostname !== 'string' || !HOST.test(hostname) || !URL.canParse(url))
    throw new TypeError('the hostname is invalid')
  return url
}

/** Checks the options of a wait. @throws TypeError with the invalid option */
export const checkWaitOptions = (options: WaitUntilReadyOptions): void =>
  checkOptions(options, { ...CALL_OPTIONS, authToken: 'string or function' })

/** Waits until a database responds at its host. @throws TypeError for an invalid hostname or token, without waiting */
export async function waitForDatabase(
  { fetch }: { readonly fetch: PlatformFetch },
  hostname: string,
  options: WaitUntilReadyOptions,
): Promise<void> {
  const { signal, timeoutMs = 30_000, authToken } = options
  const url = `${baseUrl(hostname)}/v2/pipeline`
  const failure = (code: 'TIMEOUT' | 'ABORTED', message: string, cause?: unknown): PlatformError =>
    new PlatformError({ code, message, cause, method: 'POST', path: url, outcome: 'not_applied' })
  let problem = 'no response'
  const onTimeout = (): PlatformError =>
    failure('TIMEOUT', `the database at ${hostname} is not ready after ${timeoutMs} ms: ${problem}`)
  const onAbort = (reason: unknown): PlatformError =>
    failure('ABORTED', 'the wait for the database was aborted', reason)

  const limit = new TimeLimit({ timeoutMs, signal, onTimeout, onAbort })
  const isReady = async (probeSignal: AbortSignal): Promise<boolean> => {
    const token = typeof authToken === 'function' ? await authToken() : authToken
    const headers: Record<string, string> = { 'content-type': 'application/json' }
    if (token !== undefined) {
      checkToken('authToken', token)
      headers['authorization'] = `Bearer ${token}`
    }
    const init = { method: 'POST', headers, body: CLOSE, signal: probeSignal, redirect: 'manual' } as const
    try {
      const response = await fetch(url, init)
      const { status } = response
      problem = `HTTP ${status}`
      await response.text().catch(() => {}) // read completely, to release the connection
      return status !== 404 && status > 0 && status < 500
    } catch (error) {
      problem = `no response: ${describeFailure(error, token ?? '')}`
      return false
    }
  }
  try {
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
      if (await limit.within(isReady)) return
      if (waitMs >= limit.remainingMs) throw onTimeout()
      await limit.wait(waitMs)
    }
  } finally {
    limit.stop()
  }
}
