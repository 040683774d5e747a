import { afterEach, describe, expect, test } from 'vitest'
import { anySignal } from './any-signal.ts'

const { any } = AbortSignal
afterEach(() => {
  AbortSignal.any = any
})

describe.each(['with', 'without'])('%s AbortSignal.any', (which) => {
  /** A signal of several, on a runtime that has the built-in or has it not. */
  const combined = (...signals: AbortSignal[]): AbortSignal => {
    if (which === 'without') delete (AbortSignal as { any?: unknown }).any
    return anySignal(signals)
  }

  test('it is aborted with one of them, for its reason', () => {
    const [first, second] = [new AbortController(), new AbortController()]
    const signal = combined(first.signal, second.signal)
    expect(signal.aborted).toBe(false)
    second.abort('second')
    expect(signal.reason).toBe('second')
  })

  test('one that was aborted before', () => {
    const { signal: open } = new AbortController()
    expect(combined(open, AbortSignal.abort('before')).reason).toBe('before')
  })

  test('one that never is', () => {
    const { signal } = new AbortController()
    expect(combined(signal).aborted).toBe(false)
  })
})
