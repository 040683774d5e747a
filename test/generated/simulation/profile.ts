import type { Chooser } from './chooser.ts'
import type { Mode } from './history.ts'

/** The kinds of events in a history. Each profile omits most of them, so that the others often coincide. */
export interface Profile {
  readonly faults: number
  readonly aborts: boolean
  readonly hasTimeouts: boolean
  readonly closes: boolean
  readonly sleeps: readonly number[]
  /** How often a call is not awaited at once. */
  readonly parallel: number
  readonly modes: readonly (Mode | undefined)[]
  readonly misuses: boolean
  /** How often a statement fails. */
  readonly failing: number
  /** How often a statement has a large result. */
  readonly large: number
  /** Whether nothing is written. */
  readonly onlyReads: boolean
  /** Whether transactions begin with invalid SQL, and then do nothing for a while. */
  readonly stalls: boolean
  /** Whether query builders begin transactions. */
  readonly hasOrms: boolean
}

/** Time limits of calls, in ms. */
export const CALL_TIMEOUTS_MS = [1, 2, 3, 5, 20, 50, 100, 500, 2_000]

/** Chooses the kinds of events in a history. */
export function makeProfile(choose: Chooser): Profile {
  const isFaulty = choose.chance(0.5)
  const isReadOnly = choose.chance(0.04)
  return {
    faults: isFaulty ? choose.pick([1, 2, 2, 5]) : 0,
    aborts: choose.chance(0.3),
    hasTimeouts: choose.chance(0.15),
    closes: choose.chance(0.12),
    sleeps: choose.chance(0.7) ? [0, 1, 2, 5] : [1, 100, 1_000, 4_000, 5_000, 6_000, 11_000],
    parallel: choose.pick([0, 0.2, 0.5]),
    modes: isReadOnly
      ? ['deferred', 'readonly']
      : choose.chance(0.8)
        ? [undefined]
        : [undefined, 'immediate', 'deferred', 'readonly'],
    misuses: choose.chance(0.15),
    failing: choose.pick([0, 0.1, 0.3]),
    large: choose.chance(0.1) ? choose.pick([0.3, 0.8]) : 0,
    onlyReads: isReadOnly,
    stalls: choose.chance(0.03),
    hasOrms: choose.chance(0.08),
  }
}
