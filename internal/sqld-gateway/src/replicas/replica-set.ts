import { rm } from 'node:fs/promises'
import { type DatabaseId, ReplicaStartError } from '@batonsql/server-common/backend'
import { Replica, type ReplicaOptions, replicaFolder } from './replica.ts'

/** The replicas of one primary, by location. */
export class ReplicaSet {
  readonly #options: ReplicaOptions
  /** Each replica starts when it is first needed. */
  readonly #replicas = new Map<string, Promise<Replica>>()
  readonly #started = new Set<Replica>()
  readonly #removals = new Map<string, Promise<void>>()
  #lastChange: Promise<void> = Promise.resolve()

  constructor(options: ReplicaOptions) {
    this.#options = options
  }

  /** The replicas that have started successfully. */
  get started(): readonly Replica[] {
    return [...this.#started]
  }

  /** Waits for the replicas that are starting, and returns those that have started successfully. */
  async waitUntilStarted(): Promise<readonly Replica[]> {
    const started = await Promise.all(
      [...this.#replicas.values()].map((replica) => replica.catch(() => null)),
    )
    return started.filter((replica) => replica !== null)
  }

  /** Returns the replica in a location, starting it if necessary. @throws ReplicaStartError */
  get(location: string): Promise<Replica> {
    const existing = this.#replicas.get(location)
    if (existing !== undefined) return existing
    const replica = this.#start(location).catch((cause: unknown) => {
      const error = new ReplicaStartError(location, cause)
      console.error(error)
      // retried on the next request
      if (this.#replicas.get(location) === replica) this.#replicas.delete(location)
      throw error
    })
    this.#replicas.set(location, replica)
    return replica
  }

  async #start(location: string): Promise<Replica> {
    // an earlier replica in this location, which has the same folder
    await this.#removals.get(location)
    const replica = await Replica.start(location, this.#options)
    this.#started.add(replica)
    return replica
  }

  /** Called when reads of a database are no longer blocked. Includes the replicas that are starting. */
  onUnblock(id: DatabaseId): void {
    for (const replica of this.#replicas.values())
      replica.then(
        (started) => started.onUnblock(id),
        () => {}, // reported by `get`
      )
  }

  /**
   * Starts the missing replicas in the current locations, and removes all others; one change after another.
   * @throws ReplicaStartError if one does not start
   */
  async change(getLocations: () => readonly string[]): Promise<void> {
    const change = this.#lastChange.then(() => this.#change(getLocations()))
    this.#lastChange = change.catch(() => {})
    await change
  }

  async #change(requested: readonly string[]): Promise<void> {
    const locations = requested.filter((location) => !this.#options.conditions.isDown(location))
    const removed = [...this.#replicas.keys()].filter((location) => !locations.includes(location))
    await Promise.all(removed.map((location) => this.#remove(location)))
    const starts = await Promise.allSettled(locations.map((location) => this.get(location)))
    const failure = starts.find((start) => start.status === 'rejected')
    if (failure !== undefined) throw failure.reason
  }

  async #remove(location: string): Promise<void> {
    const starting = this.#replicas.get(location)
    this.#replicas.delete(location)
    const removal = (async () => {
      const replica = await starting?.catch(() => null)
      if (replica) this.#started.delete(replica)
      await replica?.[Symbol.asyncDispose]()
      await rm(replicaFolder(location, this.#options.directory), {
        recursive: true,
        force: true,
        maxRetries: 3,
      })
    })()
    const ended = removal.catch(() => {})
    this.#removals.set(location, ended)
    await removal.finally(() => {
      if (this.#removals.get(location) === ended) this.#removals.delete(location)
    })
  }
}
