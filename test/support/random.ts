/** Creates a seeded generator of numbers from 0 to 1 (mulberry32), so that a run can be repeated. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let hash = state
    hash = Math.imul(hash ^ (hash >>> 15), hash | 1)
    hash ^= hash + Math.imul(hash ^ (hash >>> 7), hash | 61)
    return ((hash ^ (hash >>> 14)) >>> 0) / 2 ** 32
  }
}

export const pick = <T>(random: () => number, items: readonly T[]): T =>
  items[Math.floor(random() * items.length)] as T

/** The seed of generated tests, which their titles print. `TEST_SEED` repeats a run. */
export const SEED = Number(process.env['TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

/** Whether this run is `npm test -- release`, which runs additional tests, and more cases of generated tests. */
export const IS_RELEASE = process.env['TEST_RELEASE'] !== undefined
