import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { DatabaseId } from '../backend/backend.ts'
import type { ExportedFile } from '../backend/export-response.ts'
import type { WorkerPool } from './worker-pool.ts'

/** What is needed to make files of databases. */
export interface ExportParts {
  /** Where they are made. What is left there by a process that was killed is removed at the start. */
  readonly directory: string
  readonly workers: WorkerPool
  /** Copies a database as it is to a file, and to the log that belongs to it. */
  readonly snapshot: (id: DatabaseId, path: string, signal: AbortSignal) => Promise<void>
}

/** Files with all of a database in them. Requests to the database go on meanwhile, transactions too. */
export class DatabaseExports {
  readonly #parts: ExportParts
  #last = 0

  constructor(parts: ExportParts) {
    this.#parts = parts
  }

  async start(): Promise<void> {
    await rm(this.#parts.directory, { recursive: true, force: true })
  }

  /** The database as it is now. */
  async make(id: DatabaseId, signal: AbortSignal): Promise<ExportedFile> {
    const { directory, workers, snapshot } = this.#parts
    await mkdir(directory, { recursive: true })
    this.#last += 1
    const path = join(directory, `${this.#last}.db`)
    const remove = async (): Promise<void> => {
      for (const suffix of ['', '-wal', '.wal']) await rm(`${path}${suffix}`, { force: true })
    }
    try {
      await snapshot(id, path, signal)
      await adoptLog(path)
      await workers.settle(id, path)
      if (existsSync(`${path}.wal`) || existsSync(`${path}-wal`))
        throw new Error('the log could not be moved into the file')
      return { path, remove }
    } catch (error) {
      await remove()
      throw error
    }
  }
}

/** Gives the log of a copy the name it has while a database is open here: it is not of another program that has it open. */
export async function adoptLog(path: string): Promise<void> {
  if (existsSync(`${path}-wal`)) await rename(`${path}-wal`, `${path}.wal`)
}
