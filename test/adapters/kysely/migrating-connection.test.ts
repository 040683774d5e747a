import { BatonDialect } from '@batonsql/kysely-dialect'
import { Kysely, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { expect, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'

test('after migrations on a connection, it may drop a table whose rows others refer to', async () => {
  const server = await openTestServer()
  const { url, authToken } = await server.createDatabase()
  const db = new Kysely<unknown>({ dialect: new BatonDialect({ url, authToken }) })
  await db.connection().execute(async (connection) => {
    const provider = { getMigrations: async () => ({}) }
    expect(await new Migrator({ db: connection, provider }).migrateToLatest()).toEqual({ results: [] })
    await sql`create table parent (id integer primary key)`.execute(connection)
    await sql`create table child (parent integer references parent (id) on delete cascade)`.execute(
      connection,
    )
    await sql`insert into parent values (1)`.execute(connection)
    await sql`insert into child values (1)`.execute(connection)
    await sql`drop table parent`.execute(connection)
    expect((await sql`select * from child`.execute(connection)).rows).toEqual([])
  })
  await db.destroy()
})
