import { randomUUID } from 'node:crypto'
import { mkdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { BackendError, type DatabaseBackend, type DatabaseId } from '@batonsql/server-common/backend'
import { listFolder } from '@batonsql/server-common/base'
import { ApiError } from './api-error.ts'
import type { Databases } from './databases.ts'
import { recordRemoval } from './record-removal.ts'
import type { Registry } from './registry/registry.ts'
import type { DatabaseRow, SnapshotRow } from './registry/rows.ts'
import { shorten } from './rules/names.ts'

/** Maximum number of snapshots of a database: each takes as much space as the database. */
const MAX_SNAPSHOTS = 50
const NAME = /^[a-z0-9][a-z0-9-]{0,63}$/

export interface SnapshotsOptions {
  readonly registry: Registry
  readonly backend: DatabaseBackend
  readonly databases: Databases
  /** Folder of the files, each named for the id of its snapshot. */
  readonly folder: string
}

/** Keeps copies of databases in files, and restores databases from them. */
export class Snapshots {
  readonly #options: SnapshotsOptions

  constructor(options: SnapshotsOptions) {
    this.#options = options
  }

  /** Removes the files that an interrupted creation or removal has left. */
  async start(): Promise<void> {
    const { registry, folder } = this.#options
    for (const file of await listFolder(folder))
      if (registry.snapshots.get(file) === undefined) await rm(join(folder, file), { force: true })
  }

  /** Returns the snapshots of a database in the order in which they were created. */
  list(database: DatabaseId): readonly SnapshotRow[] {
    return this.#options.registry.snapshots.rows.filter((row) => row.database === database)
  }

  /** Returns a snapshot by its name. @throws ApiError 404 */
  get({ id, name: database }: DatabaseRow, name: string): SnapshotRow {
    const row = this.#options.registry.findSnapshot(id, name)
    if (row === undefined)
      throw new ApiError(404, `could not find snapshot with name ${shorten(name)} of database ${database}`)
    return row
  }

  /** Returns the file of a snapshot, from which a database can be created. */
  getFile({ id }: SnapshotRow): string {
    return join(this.#options.folder, id)
  }

  /**
   * Copies the current state of a database while reads and writes continue.
   * @param name by default, the time
   * @throws ApiError 400, or 409 if the name is taken, or the database was lost, removed or restored
   */
  async create(database: DatabaseRow, name = nameForTime()): Promise<SnapshotRow> {
    const { registry, backend, folder } = this.#options
    const row = { id: randomUUID(), database: database.id, name, createdAt: Date.now() }
    this.#checkAvailable(database, name)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const file = join(folder, row.id)
    try {
      await backend.exportTo(database.id, file)
      const snapshot: SnapshotRow = { ...row, bytes: (await stat(file)).size }
      // the name may have been taken, or the database removed, during the copy
      this.#checkAvailable(database, name)
      registry.transaction(() => registry.snapshots.put(snapshot))
      return snapshot
    } catch (error) {
      await rm(file, { force: true })
      this.#checkAvailable(database, name)
      throw error instanceof BackendError ? new ApiError(400, error.message) : error
    }
  }

  /** Replaces the content of a database with a snapshot: see {@link Databases.replace}. @returns the database with its new id */
  async restore(database: DatabaseRow, name: string): Promise<DatabaseRow> {
    const { registry, databases } = this.#options
    const snapshot = this.get(database, name)
    return await databases.replace(database, this.getFile(snapshot)).catch((error: unknown) => {
      if (registry.snapshots.get(snapshot.id) !== undefined) throw error
      throw new ApiError(409, `snapshot ${name} of database ${database.name} was removed in the meantime`)
    })
  }

  /** Removes a snapshot. @throws ApiError 404 */
  async remove(database: DatabaseRow, name: string): Promise<void> {
    await this.#remove(this.get(database, name))
  }

  async removeAll(database: DatabaseId): Promise<void> {
    for (const row of this.list(database)) await this.#remove(row)
  }

  async #remove(row: SnapshotRow): Promise<void> {
    const { registry } = this.#options
    const removeFile = (): Promise<void> => rm(this.getFile(row), { force: true })
    await recordRemoval(() => registry.transaction(() => registry.snapshots.delete(row.id)), removeFile)
    await removeFile()
  }

  /** Checks that a database can have a snapshot of this name. @throws ApiError */
  #checkAvailable({ id, name: database, isSchema, schema }: DatabaseRow, name: string): void {
    const { registry } = this.#options
    if (!NAME.test(name))
      throw new ApiError(
        400,
        `invalid snapshot name ${JSON.stringify(shorten(name))}: use 1 to 64 characters a-z, 0-9 and "-", not beginning with "-"`,
      )
    const state = registry.databases.get(id)?.state
    if (state === 'lost')
      throw new ApiError(409, `database ${database} has no current state: its file is missing or empty`)
    if (state !== 'ready')
      throw new ApiError(409, `database ${database} was removed or restored in the meantime`)
    if (isSchema || schema !== null)
      throw new ApiError(
        400,
        `database ${database} shares its schema with others, and cannot be restored on its own`,
      )
    if (registry.findSnapshot(id, name) !== undefined)
      throw new ApiError(409, `snapshot ${name} of database ${database} already exists`)
    if (this.list(id).length >= MAX_SNAPSHOTS)
      throw new ApiError(400, `database ${database} has ${MAX_SNAPSHOTS} snapshots; delete one first`)
  }
}

/** Returns the current time as a name: `2026-11-28-19-10-11-123`. */
const nameForTime = (): string => new Date().toISOString().slice(0, -1).replaceAll(/[T:.]/g, '-')
