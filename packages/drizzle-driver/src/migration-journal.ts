import type { ArrayRow, Client, InStatement, InValue, ResultSet } from '@batonsql/core'
import { failWhen, openStream, type Stream } from '@batonsql/core/adapter'
import { countViolations, type ForeignKeys } from './foreign-key-queries.ts'
import type { Migration } from './migration-source.ts'

/** The migration state of the database. */
export interface JournalState {
  /** Creates the table, or upgrades it to the layout of this Drizzle version; changes nothing if it is up to date. */
  readonly prepareTable: readonly InStatement[]
  /** Pending migrations, in order. */
  readonly pending: readonly Migration[]
  readonly appliedCount: number
  /** Whether none of the applied migrations was passed. */
  readonly isOfAnother: boolean
  /** Why the table cannot be used; null if it can. */
  readonly problem: string | null
  /** `when` of the newest applied migration. */
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

const COUNT_VIOLATIONS = '(select count(*) from pragma_foreign_key_check)'

/** Fails in an engine without `pragma_foreign_key_check`. */
const PROBE_CHECK = "select count(*) from pragma_foreign_key_check('sqlite_schema')"

const TABLES = "select name from sqlite_schema where type = 'table'"

/** Drizzle's table of applied migrations, which drizzle-kit and Drizzle's own migrators also write. */
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

  // The following statements stop their batch by failing when their condition is violated.

  failUnlessCount(count: number): string {
    return `select ${failWhen(`(select count(*) from ${this.#table}) <> ${count}`, 'another migrator applied it first')}`
  }

  /** Returns a statement that checks all tables that exist at the end, except those that could not be checked at the beginning. */
  failIfMoreViolations({ violations, uncheckable }: ForeignKeys): InStatement {
    const count = `(select count(*) from sqlite_schema s cross join pragma_foreign_key_check(s.name)
      where s.type = 'table' and s.name not in (select value from json_each(?)))`
    return {
      sql: `select ${failWhen(`${count} > ${violations}`, 'foreign keys')}`,
      args: [JSON.stringify(uncheckable)],
    }
  }

  /** Reads the applied migrations in one read-only request, whose statements may fail independently. */
  async read(migrations: readonly Migration[]): Promise<JournalState> {
    const [unlessTable, named, unnamed, ifPending] = await this.#readTogether([
      // first: without a snapshot, a table that is found here is one that the next statements can read
      {
        sql: `select case when not exists (select 1 from sqlite_schema where name = ?) then ${COUNT_VIOLATIONS} end`,
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
    // this condition is true unless there is such a table
    const hasTable = unlessTable?.rows[0]?.[0] === null
    const violationCount = [unlessTable, ifPending]
      .map((result) => result?.rows[0]?.[0])
      .find((count) => count != null)
    const pending = this.#findPending(migrations, journal)
    let foreignKeys: ForeignKeys | null = null
    if (pending.length > 0)
      foreignKeys =
        violationCount === undefined
          ? await this.#checkTableByTable()
          : { violations: Number(violationCount), uncheckable: [], hasCheck: true }
    return {
      prepareTable: [
        `CREATE TABLE IF NOT EXISTS ${this.#table} (${this.#layout.columns})`,
        ...this.#layout.upgrade(this.#table, migrations, journal),
      ],
      pending,
      appliedCount: journal.rows.length,
      isOfAnother: journal.rows.length > 0 && pending.length === migrations.length,
      problem:
        journal.layout === 'none' && hasTable
          ? `${this.#client.url} has a table ${this.#name} that Drizzle did not create: check the URL, or set \`migrationsTable\``
          : null,
      lastWhen: Math.max(...journal.rows.map(([, when]) => Number(when))),
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

  /** Checks table by table, for a database where checking all of them at once fails. */
  async #checkTableByTable(): Promise<ForeignKeys> {
    const [tables, check] = await this.#readTogether([TABLES, PROBE_CHECK])
    if (check === null) return await countViolations((statements) => this.#readTogether(statements))
    const names = (tables?.rows ?? []).map(([name]) => name as string)
    const counts = await this.#readTogether(
      names.map((name) => ({ sql: 'select count(*) from pragma_foreign_key_check(?)', args: [name] })),
    )
    return {
      violations: counts.reduce((sum, count) => sum + Number(count?.rows[0]?.[0] ?? 0), 0),
      uncheckable: names.filter((_, index) => counts[index] === null),
      hasCheck: true,
    }
  }

  async #readTogether(statements: readonly InStatement[]): Promise<(ResultSet<ArrayRow> | null)[]> {
    const read = async (inTransaction: boolean): Promise<(ResultSet<ArrayRow> | null)[]> => {
      const stream = openStream(this.#client)
      if (inTransaction) stream.begin('deferred')
      // called in one tick, so that the statements and the end of the stream share one request
      const results = this.readOn(stream, statements)
      await stream.close()
      return await results
    }
    return await read(true).catch((error: unknown) => {
      // a schema database has no transactions over several requests
      if ((error as { code?: string }).code !== 'SCHEMA_MIGRATION_ERROR') throw error
      return read(false)
    })
  }

  /** Reads in one request on a stream. @returns null for each statement that the database rejects */
  async readOn(stream: Stream, statements: readonly InStatement[]): Promise<(ResultSet<ArrayRow> | null)[]> {
    const options = { rowMode: 'array', timeoutMs: this.#timeoutMs } as const
    const results = Promise.allSettled(
      statements.map((statement) => stream.execute(statement, undefined, options)),
    )
    return (await results).map((outcome) => {
      if (outcome.status === 'fulfilled') return outcome.value
      const { name, code } = outcome.reason as { name?: string; code?: string }
      if (name === 'SqlError' && code !== 'SCHEMA_MIGRATION_ERROR') return null
      throw outcome.reason
    })
  }
}
