import { checkOptions } from '../base/check-options.ts'
import { Deadline } from '../base/deadline.ts'
import { Waiter } from '../base/waiter.ts'
import type { PlatformCallOptions } from './platform-config.ts'
import { AbortedError, TimeoutError } from './platform-errors.ts'
import { CALL, type PlatformHttp } from './platform-http.ts'
import type { DatabaseToken } from './platform-token.ts'

export interface WaitUntilReadyOptions extends PlatformCallOptions {
  /**
   * Token of the database, for servers that ask for one before they look whether there is such a database. Without it an
   * answer that asks for one (401) counts as ready.
   */
  readonly authToken?: DatabaseToken | (() => DatabaseToken | Promise<DatabaseToken>) | undefined
}

const WAIT = { ...CALL, authToken: 'string or function' }

const TIMEOUT_MS = 30_000

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
  { config, clock }: PlatformHttp,
  hostname: string,
  options: WaitUntilReadyOptions,
): Promise<void> {
  checkOptions(options, WAIT)
  const { signal, timeoutMs = TIMEOUT_MS, authToken } = options
  const deadline = new Deadline(clock, timeoutMs)
  const url = `${databaseUrl(hostname)}/v2/pipeline`
  const details = { method: 'POST', path: url, outcome: 'not_applied' } as const
  const aborted = (cause: unknown): AbortedError =>
    new AbortedError({ ...details, message: 'the wait for the database was aborted', code: 'ABORTED', cause })
  let last = 'no answer'
  const late = (): TimeoutError => {
    const message = `the database at ${hostname} is not ready after ${timeoutMs} ms: ${last}`
    return new TimeoutError({ ...details, message, code: 'TIMEOUT' })
  }
  const controller = new AbortController()
  try {
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
      if (signal?.aborted) throw signal.reason
      const look = new Waiter<number>(clock, { ms: deadline.leftMs, signal, late })
      statusOf(url, authToken, config.fetch, controller.signal).then(look.resolve, look.reject)
      const status = await look.promise
      if (isReady(status)) return
      last = status === NO_ANSWER ? 'no answer' : `HTTP ${status}`
      if (waitMs >= deadline.leftMs) throw late()
      await new Waiter(clock, { ms: waitMs, signal }).promise
    }
  } catch (error) {
    throw signal?.aborted && error === signal.reason ? aborted(error) : error
  } finally {
    controller.abort()
  }
}

const NO_ANSWER = 0

const isReady = (status: number): boolean => status !== NO_ANSWER && status !== 404 && status < 500

async function statusOf(
  url: string,
  authToken: WaitUntilReadyOptions['authToken'],
  fetch: PlatformHttp['config']['fetch'],
  signal: AbortSignal,
): Promise<number> {
  const token = typeof authToken === 'function' ? await authToken() : authToken
  const headers = {
    'content-type': 'application/json',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  }
  try {
    const answer = await fetch(url, { method: 'POST', headers, body: CLOSE, signal, redirect: 'manual' })
    // read to its end, so that the connection is free
    await answer.text()
    return answer.status
  } catch {
    return NO_ANSWER
  }
}
