import type { Kysely } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('pet')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('owner_id', 'integer', (column) =>
      column.notNull().references('person.id').onDelete('cascade'),
    )
    .addColumn('weight', 'real')
    .execute()
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await db.schema.dropTable('pet').execute()
}
