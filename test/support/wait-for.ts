import { vi } from 'vitest'

/**
 * Repeats a callback until it no longer throws, and returns its value. Vitest's default of one second is too short for a busy
 * machine.
 */
export const waitFor = <T>(callback: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(callback, { timeout: 60_000 })
