import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('person')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('born_at', 'integer')
    .addColumn('portrait', 'blob')
    .addColumn('created_at', 'text', (column) => column.notNull().defaultTo(sql`current_timestamp`))
    .execute()
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await db.schema.dropTable('person').execute()
}
