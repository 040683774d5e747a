import { type Client, createClient } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { migrate } from '@batonsql/drizzle-driver/migrator'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { databaseUrl, type PlatformClient } from '@batonsql/platform'
import { count } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { type Generated, Kysely } from 'kysely'
import { Migrator } from 'kysely/migration'

/** The part of the schema that Drizzle manages. */
const note = sqliteTable('note', { id: integer().primaryKey(), body: text().notNull() })
const createNote = 'CREATE TABLE note (id integer PRIMARY KEY, body text NOT NULL)'

/** The part that Kysely manages. */
interface Tables {
  visit: { id: Generated<number>; page: string }
}
const createVisit = {
  up: async (db: Kysely<unknown>): Promise<void> => {
    await db.schema
      .createTable('visit')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('page', 'text', (column) => column.notNull())
      .execute()
  },
}

/** The contents of a tenant's database, and its usage. */
export interface TenantReport {
  readonly name: string
  readonly notes: number
  readonly visits: number
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly storageBytes: number
}

/** Customers, each with a separate database and a token that gives access to nothing else. */
export class Tenants {
  readonly #platform: PlatformClient
  readonly #group: string

  constructor(platform: PlatformClient, group: string) {
    this.#platform = platform
    this.#group = group
  }

  /** Creates a tenant's database and its tables. Can be repeated, even after a failure in the middle. */
  async create(name: string): Promise<void> {
    const newDatabase = { name, group: this.#group, sizeLimit: '64mb' }
    await this.#platform.databases.ensure(newDatabase, { wait: true })
    await this.#withClient(name, async (client) => {
      const migrations = [{ tag: '0000_note', sql: createNote, when: 1_700_000_000_000 }]
      await migrate(drizzle({ client }), { migrations })
      const db = new Kysely<unknown>({ dialect: new BatonDialect({ client }) })
      const provider = { getMigrations: async () => ({ '2026-01-01-visit': createVisit }) }
      const { error } = await new Migrator({ db, provider }).migrateToLatest()
      if (error !== undefined) throw error
    })
  }

  /** Runs a tenant's workload. */
  async use(name: string, visits: number): Promise<void> {
    await this.#withClient(name, async (client) => {
      const db = new Kysely<Tables>({ dialect: new BatonDialect({ client }) })
      const pages = Array.from({ length: visits }, (_, index) => ({ page: `/page/${index}` }))
      await db.insertInto('visit').values(pages).execute()
      await drizzle({ client, schema: { note } })
        .insert(note)
        .values({ body: `the first note of ${name}` })
    })
  }

  /** Returns the contents of a tenant's database, and its usage this month. */
  async report(name: string): Promise<TenantReport> {
    const [notes, visits] = await this.#withClient(name, async (client) => {
      const [row] = await drizzle({ client, schema: { note } }).select({ notes: count() }).from(note)
      const db = new Kysely<Tables>({ dialect: new BatonDialect({ client }) })
      const rows = await db.selectFrom('visit').select('id').execute()
      return [row?.notes ?? 0, rows.length]
    })
    const { total } = await this.#platform.databases.usage(name)
    if (total === null) throw new Error(`the usage of ${name} is unknown`)
    const { rowsRead, rowsWritten, storageBytes } = total
    return { name, notes, visits, rowsRead, rowsWritten, storageBytes }
  }

  /** Removes a tenant and all of their data. */
  async remove(name: string): Promise<void> {
    await this.#platform.databases.delete(name, { missingOk: true })
  }

  async #withClient<T>(name: string, work: (client: Client) => Promise<T>): Promise<T> {
    const { hostname } = await this.#platform.databases.get(name)
    const authToken = this.#platform.databaseToken({ database: name, expiration: '15m' })
    const client = createClient({ url: databaseUrl(hostname), authToken })
    try {
      return await work(client)
    } finally {
      await client.close()
    }
  }
}
