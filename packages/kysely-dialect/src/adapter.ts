import { type Kysely, type MigrationLockOptions, SqliteAdapter } from 'kysely'
import { MigrationLock } from './migration-lock.ts'

/** What the dialect can do beyond a SQLite file: many connections, and a migration lock that holds between machines. */
export class BatonAdapter extends SqliteAdapter {
  readonly #supportsTransactionalDdl: boolean
  readonly #locks = new WeakMap<object, MigrationLock>()

  constructor({ supportsTransactionalDdl = false }: { readonly supportsTransactionalDdl?: boolean } = {}) {
    super()
    this.#supportsTransactionalDdl = supportsTransactionalDdl
  }

  override get supportsMultipleConnections(): boolean {
    return true
  }

  override get supportsTransactionalDdl(): boolean {
    return this.#supportsTransactionalDdl
  }

  override async acquireMigrationLock(db: Kysely<unknown>, options: MigrationLockOptions): Promise<void> {
    this.#locks.set(db, await MigrationLock.acquire(db, options))
  }

  /** Never rejects, and does nothing when the lock was not acquired: Kysely calls it then, too. */
  override async releaseMigrationLock(db: Kysely<unknown>): Promise<void> {
    await this.#locks.get(db)?.release()
    this.#locks.delete(db)
  }
}
