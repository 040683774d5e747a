import { type Kysely, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'

const olympics: Migration = {
  async up(db: Kysely<never>) {
    await db.schema
      .createTable('nation')
      .addColumn('code', 'text', (column) => column.primaryKey())
      .addColumn('athletes', 'integer', (column) => column.notNull().check(sql`athletes >= 0`))
      .execute()
    await db.schema
      .createTable('sport')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('name', 'text', (column) => column.notNull().unique())
      .execute()
    await db.schema
      .createTable('athlete')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('nation', 'text', (column) => column.notNull().references('nation.code'))
      .addColumn('sex', 'text', (column) => column.notNull())
      .addColumn('born', 'text')
      .addColumn('height_cm', 'integer')
      .addColumn('weight_kg', 'integer')
      .addColumn('sport_id', 'integer', (column) => column.notNull().references('sport.id'))
      .execute()
    await db.schema.createIndex('athlete_by_sport').on('athlete').columns(['sport_id', 'name']).execute()
    await db.schema
      .createTable('medal')
      .addColumn('athlete_id', 'integer', (column) => column.notNull().references('athlete.id'))
      .addColumn('kind', 'text', (column) => column.notNull())
      .addColumn('count', 'integer', (column) => column.notNull())
      .addPrimaryKeyConstraint('medal_key', ['athlete_id', 'kind'])
      .execute()
  },
}

const pizzeria: Migration = {
  async up(db: Kysely<never>) {
    await db.schema
      .createTable('pizza')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('size', 'text', (column) => column.notNull())
      .addColumn('category', 'text', (column) => column.notNull())
      .addUniqueConstraint('pizza_name_size', ['name', 'size'])
      .execute()
    await db.schema
      .createTable('sale')
      .addColumn('day', 'text', (column) => column.notNull())
      .addColumn('pizza_id', 'integer', (column) => column.notNull().references('pizza.id'))
      .addColumn('orders', 'integer', (column) => column.notNull())
      .addColumn('revenue_cents', 'integer', (column) => column.notNull())
      .execute()
  },
}

/** Brings the schema up to date and returns the migrations that ran. */
export async function migrateToLatest<T>(db: Kysely<T>): Promise<string[]> {
  const migrator = new Migrator({
    db,
    provider: {
      getMigrations: async () => ({ '2026-01-01-olympics': olympics, '2026-01-02-pizzeria': pizzeria }),
    },
  })
  const { error, results = [] } = await migrator.migrateToLatest()
  if (error) throw error
  return results.map(({ migrationName }) => migrationName)
}
