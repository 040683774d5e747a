import type { ArrayRow, Client, InStatement, ResultSet } from '@batonsql/core'
import type { Migration } from './migration-source.ts'

/** What the database knows of its migrations. */
export interface JournalState {
  /** Migrations that were not applied, in order. */
  readonly pending: readonly Migration[]
  readonly appliedCount: number
  /** `when` of the youngest one applied. */
  readonly lastWhen: number
  /** Rows that break a foreign key; null when nothing is pending or the database cannot tell. */
  readonly violations: number | null
}

const COUNT_VIOLATIONS = '(select count(*) from pragma_foreign_key_check)'

/** Drizzle's table of applied migrations, the same that drizzle-kit and Drizzle's own migrators write. */
export class MigrationJournal {
  readonly #client: Client
  readonly #table: string
  readonly #name: string
  readonly #timeoutMs: number

  constructor(client: Client, name: string, timeoutMs: number) {
    this.#client = client
    this.#name = name
    this.#table = `"${name.replaceAll('"', '""')}"`
    this.#timeoutMs = timeoutMs
  }

  get createTable(): string {
    return `CREATE TABLE IF NOT EXISTS ${this.#table} (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric)`
  }

  record({ hash, when }: Migration): InStatement {
    return { sql: `INSERT INTO ${this.#table} ("hash", "created_at") VALUES (?, ?)`, args: [hash, when] }
  }

  // A batch goes on only when a step succeeds, so these fail when they must: json() refuses what is not JSON.

  failUnlessCount(count: number): string {
    return `select case when (select count(*) from ${this.#table}) <> ${count} then json('another migrator was faster') end`
  }

  failIfMoreViolations(before: number): string {
    return `select case when ${COUNT_VIOLATIONS} > ${before} then json('foreign keys') end`
  }

  /** Reads what was applied, in one request that only reads; each of its parts may fail by itself. */
  async read(migrations: readonly Migration[]): Promise<JournalState> {
    const [applied, ...violations] = await this.#readTogether([
      `select hash, created_at from ${this.#table}`,
      // foreign keys are checked only when there is something to do: it means reading all rows
      {
        sql: `select case when exists (select 1 from json_each(?) where value not in
          (select created_at from ${this.#table} where created_at is not null)) then ${COUNT_VIOLATIONS} end`,
        args: [JSON.stringify(migrations.map(({ when }) => when))],
      },
      {
        sql: `select case when not exists (select 1 from sqlite_schema where name = ?) then ${COUNT_VIOLATIONS} end`,
        args: [this.#name],
      },
    ])
    const rows = applied?.rows ?? []
    const counted = violations.map((result) => result?.rows[0]?.[0]).find((count) => count != null)
    return {
      pending: pendingOf(migrations, rows),
      appliedCount: rows.length,
      lastWhen: Math.max(...rows.map(([, when]) => Number(when))),
      violations: counted === undefined ? null : Number(counted),
    }
  }

  async #readTogether(statements: readonly InStatement[]): Promise<(ResultSet<ArrayRow> | null)[]> {
    const stream = this.#client.openStream()
    stream.begin('deferred')
    const options = { rowMode: 'array', timeoutMs: this.#timeoutMs } as const
    // issued in one tick, they and the stream's end are one request
    const reading = Promise.allSettled(statements.map((each) => stream.execute(each, undefined, options)))
    await stream.close()
    return (await reading).map((outcome) => {
      if (outcome.status === 'fulfilled') return outcome.value
      if ((outcome.reason as { name?: string }).name === 'SqlError') return null
      throw outcome.reason
    })
  }
}

/**
 * A migration is known by the time of its journal entry; one whose time was changed by hand, by its text. One whose text
 * was changed after it had been applied is not applied again.
 */
function pendingOf(migrations: readonly Migration[], rows: readonly ArrayRow[]): Migration[] {
  const byTime = new Set(rows.map(([, when]) => Number(when)))
  const known = migrations.filter(({ when }) => byTime.has(when))
  const knownTimes = new Set(known.map(({ when }) => when))
  const hashes = new Set(rows.filter(([, when]) => !knownTimes.has(Number(when))).map(([hash]) => hash))
  return migrations.filter(({ when, hash }) => !byTime.has(when) && !hashes.has(hash))
}
