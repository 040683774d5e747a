import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabaseId } from '../backend.ts'
import { copyDatabaseFile } from './copy-database-file.ts'
import type { HostTable } from './host-table.ts'

/** How long a copy waits for requests under way. */
const MAX_WAIT_MS = 6_000
const WAIT_STEP_MS = 5

/** What is needed to copy the files of databases. */
export interface CopyParts {
  readonly hosts: HostTable
  readonly fileOf: (id: DatabaseId) => string
}

/** Copies of database files. While one is made, whoever comes waits: a request could change the file meanwhile. */
export class DatabaseCopies {
  readonly #parts: CopyParts
  readonly #running = new Map<DatabaseId, Promise<void>>()

  constructor(parts: CopyParts) {
    this.#parts = parts
  }

  isUnderWay(id: DatabaseId): boolean {
    return this.#running.has(id)
  }

  /** Resolves when nobody copies the database; check again before relying on it. */
  async wait(id: DatabaseId): Promise<void> {
    while (this.#running.has(id)) await this.#running.get(id)
  }

  /** Makes a file that every program can read; the open streams end, and what still runs is interrupted. */
  async exportTo(id: DatabaseId, file: string): Promise<void> {
    await this.#alone(id, async () => {
      const { hosts, fileOf } = this.#parts
      await (await hosts.get(id)).ready
      await this.#isQuiet(id)
      await hosts.release(id)
      await copyDatabaseFile(fileOf(id), file)
    })
  }

  async #alone(id: DatabaseId, work: () => Promise<void>): Promise<void> {
    // known before anything is waited for, so that two that come together follow each other
    const copied = (this.#running.get(id) ?? Promise.resolve()).then(work)
    const done = copied
      .catch(() => {})
      .then(() => {
        if (this.#running.get(id) === done) this.#running.delete(id)
      })
    this.#running.set(id, done)
    await copied
  }

  /** Waits until no request is under way; whether there is none. */
  async #isQuiet(id: DatabaseId): Promise<boolean> {
    const due = performance.now() + MAX_WAIT_MS
    while (this.#parts.hosts.find(id)?.isBusy === true) {
      if (performance.now() > due) return false
      await sleep(WAIT_STEP_MS)
    }
    return true
  }
}
