import { expect, test } from 'vitest'
import { batchPrefix, needsWriteLock, type QueuedCall } from './queued-call.ts'

test.each(['on', 'off'] as const)(
  'a concurrent batch with foreign keys %s does not wait for the write lock',
  (foreignKeys) => {
    const call = { isReadOnly: false, options: {}, statements: [] }
    const needsLock = (mode?: 'concurrent'): boolean =>
      needsWriteLock({
        ...call,
        prefix: batchPrefix(false, { foreignKeys, ...(mode && { mode }) }),
      } as unknown as QueuedCall)
    expect(needsLock()).toBe(true)
    expect(needsLock('concurrent')).toBe(false)
  },
)
