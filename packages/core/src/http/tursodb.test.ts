import { expect, test } from 'vitest'
import { ManualClock } from '../../test-support/manual-clock.ts'
import { run } from '../client/run.ts'
import { encodeBatch } from '../codec/statement.ts'
import { resolveConfig } from '../config.ts'
import { Http } from './http.ts'
import type { Permit } from './limiter.ts'
import type { SendResult } from './message.ts'
import { WRITE } from './policies.ts'
import { Tursodb } from './tursodb.ts'

const lockedError = { message: 'database is locked' }

/** Starts a fake server that rejects every request because the write lock is held. */
function lockedServer(clock: ManualClock): { http: Http; bodies: string[] } {
  const bodies: string[] = []
  const fetch = async (_: string, { body }: { body: string }): Promise<Response> => {
    bodies.push(body)
    const { requests } = JSON.parse(body) as { requests: { type: string; batch?: { steps: unknown[] } }[] }
    const results = requests.map(({ type, batch }) => {
      if (type === 'execute') return { type: 'error', error: lockedError }
      const skipped = batch?.steps.map(() => null) ?? []
      // the batch begins with a step that never runs, and ends with a ROLLBACK
      const noTransaction = { message: 'Transaction error: cannot rollback - no transaction is active' }
      const result = {
        step_results: skipped,
        step_errors: [null, lockedError, ...skipped.slice(3), noTransaction],
      }
      return { type: 'ok', response: { type, ...(batch && { result }) } }
    })
    return Response.json({ baton: null, base_url: null, results })
  }
  const config = resolveConfig({ url: 'http://tursodb.test', fetch: fetch as never })
  return { http: new Http(config, clock), bodies }
}

test.each(['autocommit', 'atomic'] as const)('a write is retried until its deadline (%s)', async (scope) => {
  // this module is loaded on the first error, which takes longer than microtasks
  await import('./translate-errors.ts')
  const clock = new ManualClock()
  const { http, bodies } = lockedServer(clock)
  const outcome = run(http, encodeBatch(['insert into t values (1)']), scope, { timeoutMs: 10_000 }).catch(
    (error: unknown) => error,
  )
  await expect
    .poll(async () => {
      await clock.advance(1_000)
      return bodies.length
    })
    .toBeGreaterThan(40)
  await clock.advance(10_000)
  expect(await outcome).toMatchObject({ code: 'SQLITE_BUSY', outcome: 'not_applied' })
  const attempts = bodies.length
  // delays grow to a quarter of a second
  expect(attempts).toBeLessThan(90)
  await clock.advance(10_000)
  expect(bodies).toHaveLength(attempts)
})

test('a transaction waits for its permit and then for the write lock with one timeout for both', async () => {
  const clock = new ManualClock()
  const fetch = async (): Promise<Response> => Response.json({ baton: null, base_url: null, results: [] })
  const config = resolveConfig({ url: 'http://tursodb.test', fetch, writeLockTimeoutMs: 60_000 })
  const http = new Http(config, clock)
  http.tursodb = new Tursodb(http)
  const begin = (permit: Permit): Promise<SendResult<string>> => {
    const options = { deadline: http.deadline(), limiter: http.writes, policy: WRITE, permit }
    return http.exchange(
      '/',
      () => '',
      options,
      (text) => text,
    )
  }
  const [first, holder] = [http.writeLock.acquirePermit(), http.writeLock.acquirePermit()]
  expect(await begin(holder)).toMatchObject({ isOk: true })
  const queuedPermit = http.writeLock.acquirePermit()
  await clock.advance(40_000)
  first.release()
  await queuedPermit.waiter?.promise
  const rejected = begin(queuedPermit)
  await clock.advance(19_999)
  expect(clock.pending).toBe(1)
  await clock.advance(1)
  expect(clock.pending).toBe(0)
  expect(await rejected).toMatchObject({ isSent: false, error: { code: 'TIMEOUT', outcome: 'not_applied' } })
})
