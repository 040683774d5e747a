import { SqlError } from '@batonsql/core'
import { failWhen, isFailedAssertion } from '@batonsql/core/adapter'
import { type Kysely, type MigrationLockOptions, type QueryResult, type RawBuilder, sql } from 'kysely'
import { batchQuery } from './query-command.ts'

/** How long a migrator that has crashed blocks other migrators. */
const LEASE_SECONDS = 30
const RENEWAL_MS = (LEASE_SECONDS * 1000) / 3
const FIRST_WAIT_MS = 20
const LONGEST_WAIT_MS = 500
const WAIT_LIMIT_MS = 10 * 60_000

/**
 * A lease in Kysely's lock table: `is_locked` is the second at which the lease ends, by the server's clock. A held lease is renewed,
 * and only its owner can release it.
 */
export class MigrationLock {
  readonly #db: Kysely<unknown>
  readonly #options: MigrationLockOptions
  readonly #timer: ReturnType<typeof setInterval>
  #leaseEnd: number
  #renewal: Promise<void> = Promise.resolve()

  private constructor(db: Kysely<unknown>, options: MigrationLockOptions, leaseEnd: number) {
    this.#db = db
    this.#options = options
    this.#leaseEnd = leaseEnd
    this.#timer = setInterval(() => {
      this.#renewal = this.#renew()
    }, RENEWAL_MS)
    // edge runtimes have plain numbers for timers
    if (typeof this.#timer === 'object') this.#timer.unref()
  }

  /** Waits until the lease is free and acquires it. @throws Error if other migrators hold it for 10 minutes */
  static async acquire(db: Kysely<unknown>, options: MigrationLockOptions): Promise<MigrationLock> {
    const dbWithoutPlugins = db.withoutPlugins()
    const deadline = Date.now() + WAIT_LIMIT_MS
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
      const leaseEnd = await tryToAcquire(dbWithoutPlugins, options)
      if (leaseEnd !== null) return new MigrationLock(dbWithoutPlugins, options, leaseEnd)
      if (Date.now() > deadline)
        throw new Error(
          `the migration lock was held by other migrators for ${WAIT_LIMIT_MS / 60_000} minutes (table \`${options.lockTable}\`)`,
        )
      await new Promise((resolve) => setTimeout(resolve, waitMs * (0.5 + Math.random())))
    }
  }

  /** Releases the lease. Never rejects: an error would hide the error of the migrations, and the lease expires anyway. */
  async release(): Promise<void> {
    clearInterval(this.#timer)
    await this.#renewal
    await this.#setLease(sql`0`).catch(() => null)
  }

  async #renew(): Promise<void> {
    // after a failure, the next renewal still happens before the lease ends
    this.#leaseEnd = (await this.#setLease(LEASE_END).catch(() => null)) ?? this.#leaseEnd
  }

  async #setLease(end: RawBuilder<unknown>): Promise<number | null> {
    // a renewal whose response was lost has moved the end; another migrator's lease would end even later
    const isOwn = sql`between ${this.#leaseEnd} and ${this.#leaseEnd + LEASE_SECONDS}`
    const { rows } = await leaseUpdate(this.#options, end, isOwn).execute(this.#db)
    return rows[0] ? Number(rows[0].is_locked) : null
  }
}

interface LeaseRow {
  readonly is_locked: number | bigint | string
}

const LEASE_END = sql`unixepoch() + ${sql.lit(LEASE_SECONDS)}`

const lockTable = ({
  lockTable: table,
  lockTableSchema: schema,
}: MigrationLockOptions): RawBuilder<unknown> =>
  sql.table(schema === undefined ? table : `${schema}.${table}`)

const leaseUpdate = (options: MigrationLockOptions, end: RawBuilder<unknown>, where: RawBuilder<unknown>) =>
  sql<LeaseRow>`update ${lockTable(options)} set is_locked = ${end}
    where id = ${options.lockRowId} and is_locked ${where} returning is_locked`

/**
 * Acquires the lease in one request, if it is free. Before the UPDATE, a SELECT fails if the lease is held, because even an UPDATE
 * that changes no row waits for the write lock. After 5 s, the server would then take that lock away from the migration that the
 * lease protects.
 */
async function tryToAcquire(db: Kysely<unknown>, options: MigrationLockOptions): Promise<number | null> {
  const failUnlessFree = sql`select ${sql.raw(failWhen('is_locked >= unixepoch()', 'held'))}
    from ${lockTable(options)} where id = ${options.lockRowId}`
  const acquire = leaseUpdate(options, LEASE_END, sql`< unixepoch()`)
  const { rows } = await db.executeQuery<QueryResult<LeaseRow>>(
    batchQuery({
      queries: [failUnlessFree.compile(db), acquire.compile(db)],
      mode: 'deferred',
      recover: isLeaseHeld,
    }),
  )
  const [lease] = rows[1]?.rows ?? []
  return lease ? Number(lease.is_locked) : null
}

const isLeaseHeld = (error: unknown): boolean =>
  isFailedAssertion(error, 0) || (error instanceof SqlError && error.code.startsWith('SQLITE_BUSY'))
