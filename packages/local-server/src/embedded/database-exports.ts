import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DatabaseId, ExportedFile } from '@batonsql/server-common/backend'
import type { WorkerPool } from './worker-pool.ts'

/** Dependencies of {@link DatabaseExports}. */
export interface ExportDependencies {
  /** Directory of the exports, used for nothing else. */
  readonly directory: string
  readonly workers: WorkerPool
  /** Copies the file of a database, and its WAL to `<path>-wal`. */
  readonly snapshot: (id: DatabaseId, path: string, signal: AbortSignal) => Promise<void>
}

/** Creates complete copies of databases, while requests and transactions continue. */
export class DatabaseExports {
  readonly #dependencies: ExportDependencies
  #lastNumber = 0

  constructor(dependencies: ExportDependencies) {
    this.#dependencies = dependencies
  }

  /** Removes the directory, with files that a killed process has left. Must be called before `create`. */
  async removeLeftovers(): Promise<void> {
    await rm(this.#dependencies.directory, { recursive: true, force: true })
  }

  /**
   * Creates a copy of the current state of a database.
   * @param signal aborts the snapshot, but not the work that completes the copy
   * @returns the file, and a function that removes it
   */
  async create(id: DatabaseId, signal: AbortSignal): Promise<ExportedFile> {
    const { directory, workers, snapshot } = this.#dependencies
    await mkdir(directory, { recursive: true })
    this.#lastNumber += 1
    const path = join(directory, `${this.#lastNumber}.db`)
    const remove = async (): Promise<void> => {
      // `completeCopy` renames the WAL to `.wal`
      for (const suffix of ['', '-wal', '.wal']) await rm(`${path}${suffix}`, { force: true })
    }
    try {
      await snapshot(id, path, signal)
      // writes the WAL into the file
      await workers.completeCopy(id, path)
      return { path, remove }
    } catch (error) {
      // what cannot be removed now is removed at the next start
      await remove().catch(() => {})
      throw error
    }
  }
}
