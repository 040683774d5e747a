import type { ArrayRow, Client, InStatement, InValue, ResultSet } from '@batonsql/core'
import { failWhen, openStream } from '@batonsql/core/adapter'
import { COUNT_VIOLATIONS, checkTableByTable, type ForeignKeys } from './foreign-keys.ts'
import type { Migration } from './migration-source.ts'
import { readTogether } from './read-together.ts'

export interface JournalState {
  /** Creates the table, or upgrades it to the layout of this Drizzle version; changes nothing if it is up to date. */
  readonly prepareTable: readonly InStatement[]
  /** Pending migrations, in order. */
  readonly pending: readonly Migration[]
  readonly appliedCount: number
  /** Whether migrations were applied, but none of the passed ones: this may be the wrong database. */
  readonly sharesNoMigration: boolean
  /** Why the table cannot be used; null if it can. */
  readonly problem: string | null
  /** `when` of the newest applied migration; -Infinity without one. */
  readonly lastWhen: number
  /** State of the foreign keys; null if nothing is pending. */
  readonly foreignKeys: ForeignKeys | null
}

/** Rows of the table of applied migrations: hash, time, and, since Drizzle 1.0, the name. */
export interface JournalRows {
  readonly rows: readonly ArrayRow[]
  /** Whether the table has names, lacks them, or does not exist. */
  readonly layout: 'named' | 'unnamed' | 'none'
}

/** The differences between Drizzle versions. */
export interface JournalLayout {
  readonly columns: string
  record(migration: Migration): Readonly<Record<string, InValue>>
  pending(migrations: readonly Migration[], journal: JournalRows): readonly Migration[]
  /** Upgrades the table of an older version. */
  upgrade(table: string, migrations: readonly Migration[], journal: JournalRows): readonly InStatement[]
}

/**
 * Drizzle's table of applied migrations, which drizzle-kit and Drizzle's own migrators also write. Reading it also counts the rows that
 * violate a foreign key, so that an ordinary run of `migrate` takes two requests.
 */
export class MigrationJournal {
  readonly #client: Client
  readonly #layout: JournalLayout
  readonly #table: string
  readonly #name: string
  readonly #timeoutMs: number

  constructor(
    client: Client,
    layout: JournalLayout,
    { name, timeoutMs }: { readonly name: string; readonly timeoutMs: number },
  ) {
    this.#client = client
    this.#layout = layout
    this.#name = name
    this.#table = `"${name.replaceAll('"', '""')}"`
    this.#timeoutMs = timeoutMs
  }

  record(migration: Migration): InStatement {
    const values = this.#layout.record(migration)
    const columns = Object.keys(values).map((column) => `"${column}"`)
    return {
      sql: `INSERT INTO ${this.#table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
      args: Object.values(values),
    }
  }

  /** Returns a statement that stops its batch unless the number of applied migrations is `count`. */
  failUnlessCount(count: number): string {
    return `select ${failWhen(`(select count(*) from ${this.#table}) <> ${count}`, 'another migrator applied it first')}`
  }

  /**
   * Reads the applied migrations, and counts the violations of foreign keys if migrations are pending: in one read-only request, in
   * more if the foreign keys cannot be checked all at once, and on a schema database in one for each statement, after rejected ones.
   */
  async read(migrations: readonly Migration[]): Promise<JournalState> {
    // each is null if the database rejects its statement
    const [violationsUnlessTable, named, unnamed, violationsIfPending] = await this.#readTogether([
      // null if the table exists. First: on a schema database, whose statements do not share a snapshot, the next ones find a table
      // that exists now
      {
        sql: `select case when not exists (select 1 from sqlite_schema where type in ('table', 'view') and name = ?) then ${COUNT_VIOLATIONS} end`,
        args: [this.#name],
      },
      `select hash, created_at, name from ${this.#table}`,
      `select hash, created_at from ${this.#table}`,
      // foreign keys are checked only if migrations are pending, because the check reads all rows
      {
        sql: `select case when (select count(*) from ${this.#table}) < json_array_length(?1)
          or exists (select 1 from json_each(?1) where value not in
            (select created_at from ${this.#table} where created_at is not null)) then ${COUNT_VIOLATIONS} end`,
        args: [JSON.stringify(migrations.map(({ when }) => when))],
      },
    ])
    const journal: JournalRows = {
      rows: (named ?? unnamed)?.rows ?? [],
      layout: named ? 'named' : unnamed ? 'unnamed' : 'none',
    }
    const hasTable = violationsUnlessTable?.rows[0]?.[0] === null
    const violationCount = [violationsUnlessTable, violationsIfPending]
      .map((result) => result?.rows[0]?.[0])
      .find((count) => count != null)
    const pending = this.#findPending(migrations, journal)
    let foreignKeys: ForeignKeys | null = null
    if (pending.length > 0)
      foreignKeys =
        violationCount === undefined
          ? await checkTableByTable((statements) => this.#readTogether(statements))
          : { violations: Number(violationCount), uncheckable: [], hasCheck: true }
    return {
      prepareTable: [
        `CREATE TABLE IF NOT EXISTS ${this.#table} (${this.#layout.columns})`,
        ...this.#layout.upgrade(this.#table, migrations, journal),
      ],
      pending,
      appliedCount: journal.rows.length,
      sharesNoMigration: journal.rows.length > 0 && pending.length === migrations.length,
      problem:
        journal.layout === 'none' && hasTable
          ? `${this.#client.url} has a table ${this.#name} that Drizzle did not create: check the URL, or set \`migrationsTable\``
          : null,
      lastWhen: Math.max(...journal.rows.map(([, when]) => Number(when)).filter(Number.isFinite)),
      foreignKeys,
    }
  }

  #findPending(migrations: readonly Migration[], journal: JournalRows): readonly Migration[] {
    try {
      return this.#layout.pending(migrations, journal)
    } catch (cause) {
      const { message } = cause as Error
      throw new Error(`${message}: is ${this.#client.url} the right database?`, { cause })
    }
  }

  async #readTogether(statements: readonly InStatement[]): Promise<(ResultSet<ArrayRow> | null)[]> {
    const read = async (inTransaction: boolean): Promise<(ResultSet<ArrayRow> | null)[]> => {
      const stream = openStream(this.#client)
      if (inTransaction) stream.begin('deferred')
      // called in one tick, so that in a transaction the statements and the end of the stream share one request
      const results = readTogether(stream, statements, this.#timeoutMs)
      await stream.close()
      return await results
    }
    return await read(true).catch((error: unknown) => {
      // a schema database permits a transaction only within one batch
      if ((Object(error) as { code?: string }).code !== 'SCHEMA_MIGRATION_ERROR') throw error
      return read(false)
    })
  }
}
