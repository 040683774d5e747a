import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { joinSignals } from './join-signals.ts'

test('the joined signal is aborted with the first of its signals, for the same reason', () => {
  const [first, second] = [new AbortController(), new AbortController()]
  const { signal } = joinSignals([first.signal, second.signal])
  expect(signal.aborted).toBe(false)
  second.abort('second')
  expect(signal.reason).toBe('second')
})

test('a signal that was aborted before aborts the joined one at once', () => {
  const { signal: open } = new AbortController()
  expect(joinSignals([open, AbortSignal.abort('before')]).signal.reason).toBe('before')
})

test('after `stop` no listener is left on a long-lived signal', () => {
  const { signal: shutdown } = new AbortController()
  for (let at = 0; at < 10; at++) joinSignals([shutdown, new AbortController().signal]).stop()
  expect(getEventListeners(shutdown, 'abort')).toHaveLength(0)
})
