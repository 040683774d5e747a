import { EventEmitter } from 'node:events'
import { omitUndefined } from '../base/omit-undefined.ts'

/** How the replicas in one location behave. */
export interface ReplicaCondition {
  /** Replication delay in ms, at most 2^31 - 1. @default 0 */
  readonly lagMs?: number
  /** Whether they are stopped and reject requests with status 503. @default false */
  readonly isDown?: boolean
}

/** Replication delay in ms: for all replicas, or by location. */
export type ReplicaLag = number | Readonly<Record<string, number>>

/** The conditions of all replicas, which tests can change. */
export class ReplicaConditions {
  readonly #lag: ReplicaLag
  readonly #overrides = new Map<string, ReplicaCondition>()
  readonly #events = new EventEmitter<{ change: [] }>().setMaxListeners(0)

  constructor(lag: ReplicaLag = 0) {
    this.#lag = lag
  }

  lagMs(location: string): number {
    const defaultLagMs = typeof this.#lag === 'number' ? this.#lag : this.#lag[location]
    return this.#overrides.get(location)?.lagMs ?? defaultLagMs ?? 0
  }

  isDown(location: string): boolean {
    return this.#overrides.get(location)?.isDown ?? false
  }

  /** Changes the given conditions and keeps the others. */
  change(location: string, condition: ReplicaCondition): void {
    this.#overrides.set(location, { ...this.#overrides.get(location), ...omitUndefined(condition) })
    this.#events.emit('change')
  }

  /** Calls a listener after each change. @returns a function that removes it */
  onChange(listener: () => void): () => void {
    this.#events.on('change', listener)
    return () => this.#events.off('change', listener)
  }
}
