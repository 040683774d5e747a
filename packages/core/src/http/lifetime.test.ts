import { expect, test } from 'vitest'
import { ManualClock, settle } from '../../test-support/manual-clock.ts'
import { CLOSE_TIMEOUT_MS } from '../base/limits.ts'
import { Lifetime, type OpenStream } from './lifetime.ts'

const createLifetime = () => {
  const clock = new ManualClock()
  return { clock, lifetime: new Lifetime(clock, 'http://x') }
}
/** Records when a promise settles. */
const observe = (promise: Promise<unknown>) => {
  const observed = { isSettled: false, promise }
  void promise.then(() => {
    observed.isSettled = true
  })
  return observed
}
const stream: OpenStream = { abandon: () => Promise.reject(new Error('abandoned')) }

test('closes at once if no calls are in flight, even with drainMs and on the second call', async () => {
  const { lifetime } = createLifetime()
  await lifetime.close(60_000)
  await lifetime.close(60_000)
  await lifetime.close(0)
  expect(lifetime.isClosed).toBe(true)
})

test('with drainMs, close waits for calls and open streams, and rejects new ones', async () => {
  const { lifetime } = createLifetime()
  lifetime.begin()
  lifetime.trackStream(stream, true)
  const closed = observe(lifetime.close(60_000))
  expect(() => lifetime.begin()).toThrow('the client is closed')
  // part of a call that was already running
  lifetime.begin(true)
  lifetime.end()
  lifetime.end()
  await settle()
  expect(closed.isSettled).toBe(false)
  lifetime.trackStream(stream, false)
  await closed.promise
})

test('close waits for a stream that the last response has opened', async () => {
  const { lifetime } = createLifetime()
  lifetime.begin()
  const closed = observe(lifetime.close(60_000))
  lifetime.end()
  await Promise.resolve()
  lifetime.trackStream(stream, true)
  await settle()
  await settle()
  expect(closed.isSettled).toBe(false)
  lifetime.trackStream(stream, false)
  await closed.promise
})

test('after drainMs, each pending call is aborted with its own outcome', async () => {
  const { lifetime, clock } = createLifetime()
  lifetime.begin()
  const sent = expect(lifetime.wait({ mayHaveRun: () => true }).promise).rejects.toMatchObject({
    code: 'CLOSED',
    outcome: 'unknown',
    message: 'the client is closed',
  })
  const queued = expect(lifetime.wait({}).promise).rejects.toMatchObject({ outcome: 'not_applied' })
  const closed = lifetime.close(20)
  await clock.advance(20)
  await Promise.all([closed, sent, queued])
  expect(() => lifetime.wait({})).toThrow('the client is closed')
  expect(() => lifetime.begin(true)).toThrow('the client is closed')
})

test('open streams are closed once, at the end, even if close is called again with a smaller drainMs', async () => {
  const { lifetime } = createLifetime()
  let abandonCount = 0
  lifetime.begin()
  lifetime.trackStream({ abandon: async () => void (abandonCount += 1) }, true)
  const firstClose = lifetime.close(60_000)
  await lifetime.close(0)
  await firstClose
  expect(abandonCount).toBe(1)
})

test('close waits for aborted requests for a limited time, and then drops them', async () => {
  const { lifetime, clock } = createLifetime()
  let aborted = 0
  const quick = Promise.withResolvers<void>()
  lifetime.addBackground(quick.promise, () => (aborted += 1))
  lifetime.addBackground(new Promise(() => {}), () => (aborted += 1))
  const closed = observe(lifetime.close(0))
  quick.resolve()
  await clock.advance(CLOSE_TIMEOUT_MS - 1)
  expect([closed.isSettled, aborted]).toEqual([false, 0])
  await clock.advance(1)
  await closed.promise
  expect(aborted).toBe(1)
})

test('a sleep ends when its time has passed, its signal is aborted, or the client is closed', async () => {
  const { lifetime, clock } = createLifetime()
  const sleep = observe(lifetime.sleep(50))
  await clock.advance(50)
  expect(sleep.isSettled).toBe(true)
  const reason = new Error('changed my mind')
  await expect(lifetime.sleep(50, AbortSignal.abort(reason))).rejects.toBe(reason)
  const canceled = expect(lifetime.sleep(50)).rejects.toThrow('the client is closed')
  await lifetime.close(0)
  await canceled
  expect(clock.pending).toBe(0)
})
