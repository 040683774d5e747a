import { afterEach, vi } from 'vitest'

// A setup file: restores what a test has replaced, so that the test does not have to.
afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllGlobals()
  vi.unstubAllEnvs()
  vi.useRealTimers()
})
