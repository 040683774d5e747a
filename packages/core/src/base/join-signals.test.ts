import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { joinSignals } from './join-signals.ts'

test('aborts the joined signal when any signal aborts, with the same reason', () => {
  const [first, second] = [new AbortController(), new AbortController()]
  const { signal } = joinSignals([first.signal, second.signal])
  expect(signal.aborted).toBe(false)
  second.abort('second')
  expect(signal.reason).toBe('second')
})

test('returns an aborted signal if one of the signals is already aborted', () => {
  const { signal: notAborted } = new AbortController()
  expect(joinSignals([notAborted, AbortSignal.abort('before')]).signal.reason).toBe('before')
})

test('`stop` removes all listeners from long-lived signals', () => {
  const { signal: shutdown } = new AbortController()
  for (let index = 0; index < 10; index++) joinSignals([shutdown, new AbortController().signal]).stop()
  expect(getEventListeners(shutdown, 'abort')).toHaveLength(0)
})
