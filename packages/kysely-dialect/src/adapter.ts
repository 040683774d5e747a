import {
  type Kysely,
  type MigrationLockOptions,
  type QueryExecutor,
  type QueryExecutorProvider,
  SqliteAdapter,
} from 'kysely'
import { BatonConnection } from './connection.ts'
import { MigrationLock } from './migration-lock.ts'

/** Declares what a database over HTTP supports beyond a SQLite file, and locks migrations across machines. */
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
    await setMigrating(db, true)
  }

  /** Never rejects. Does nothing unless the lock is held: Kysely also calls it after a failed acquisition. */
  override async releaseMigrationLock(db: Kysely<unknown>): Promise<void> {
    await this.#locks.get(db)?.release()
    // rejected if a loop over stream() that a migration left running keeps the connection
    if (this.#locks.delete(db)) await setMigrating(db, false).catch(() => {})
  }
}

/** Returns the executor of a Kysely instance. @throws TypeError with this message unless it was made with BatonDialect */
export function getBatonExecutor(db: Partial<QueryExecutorProvider> | null, message: string): QueryExecutor {
  const executor = db?.getExecutor?.()
  if (executor?.adapter instanceof BatonAdapter) return executor
  throw new TypeError(message)
}

/** Tells the connection that migrations run on it. */
async function setMigrating(db: Kysely<unknown>, isMigrating: boolean): Promise<void> {
  await db.getExecutor().provideConnection(async (connection) => {
    if (connection instanceof BatonConnection) connection.setMigrating(isMigrating)
  })
}
