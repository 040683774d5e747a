import { drizzle } from '@batonsql/drizzle-driver'
import { MigrationError, migrate, pendingMigrations } from '@batonsql/drizzle-driver/migrator'
import { sql } from 'drizzle-orm'
import { describe, expect, test } from 'vitest'
import { requireTursodb, startTursodb } from '../support/tursodb.ts'

requireTursodb()

async function openServer() {
  const server = await startTursodb()
  const db = drizzle(server.url)
  return { server, db, close: () => db.$client.close() }
}

const createMigration = (number: number, text: string) => ({
  tag: `000${number}_test`,
  when: number,
  sql: text,
  breakpoints: true,
})

describe('migrate() for Drizzle', () => {
  test('applies pending migrations once', async () => {
    const { db, close, server } = await openServer()
    const firstMigration = createMigration(1, 'create table a (id integer primary key)')
    const secondMigration = createMigration(2, 'create table b (id integer primary key)')
    expect(await pendingMigrations(db, { migrations: [firstMigration, secondMigration] })).toEqual([
      '0001_test',
      '0002_test',
    ])
    expect(await migrate(db, { migrations: [firstMigration] })).toEqual(['0001_test'])
    expect(await migrate(db, { migrations: [firstMigration, secondMigration] })).toEqual(['0002_test'])
    const before = server.requestCount()
    expect(await migrate(db, { migrations: [firstMigration, secondMigration] })).toEqual([])
    expect(server.requestCount()).toBe(before + 1)
    expect(server.streamCount).toBe(0)
    await close()
  })

  test('several concurrent migrators apply each migration once', async () => {
    const { db, close, server } = await openServer()
    const migrators = [0, 1, 2].map(() => drizzle(server.url))
    const migrations = [1, 2, 3].map((number) =>
      createMigration(number, `create table t${number} (id integer primary key)`),
    )
    const applied = await Promise.all([db, ...migrators].map((migrator) => migrate(migrator, { migrations })))
    expect(applied.flat().toSorted()).toEqual(['0001_test', '0002_test', '0003_test'])
    for (const migrator of migrators) await migrator.$client.close()
    await close()
  })

  test('the error names the failing statement, and nothing is applied', async () => {
    const { db, close } = await openServer()
    const invalidMigration = createMigration(
      1,
      'create table a (id integer);--> statement-breakpoint\ncreat table b (id integer)',
    )
    const error: unknown = await migrate(db, { migrations: [invalidMigration] }).catch(
      (reason: unknown) => reason,
    )
    expect(error).toBeInstanceOf(MigrationError)
    expect(error).toMatchObject({
      migration: '0001_test',
      statementIndex: 1,
      cause: { code: 'SQL_PARSE_ERROR' },
    })
    expect(await db.values(sql`select name from sqlite_schema`)).toEqual([])
    await close()
  })

  test.each([
    ['deleting the parent of a row', 'delete from p where id = 1'],
    ['deleting the parent of a row with a composite key', 'delete from pair'],
    ['dropping a parent table', 'drop table p'],
    ['a new foreign key', 'create table "new" ("x""y" integer references p);insert into "new" values (77)'],
  ])('rejects %s', async (_, text) => {
    const { db, close, server } = await openServer()
    const schema = createMigration(
      1,
      `create table p (id integer primary key, u text collate nocase unique);
       create table c (p integer references P, u text references p (u));
       create table pair (a, b, primary key (a, b));
       create table of_pair (x, y, foreign key (x, y) references pair (a, b))`,
    )
    await migrate(db, { migrations: [schema] })
    await db.run(sql`insert into p values (1, 'u'), (2, 'v')`)
    await db.run(sql`insert into c values (1, null), (null, 'U')`)
    await db.run(sql`insert into pair values (1, 2)`)
    await db.run(sql`insert into of_pair values (1, 2), (3, null)`)
    const harmless = createMigration(2, 'create table extra (id integer)')
    expect(await migrate(db, { migrations: [schema, harmless] })).toEqual(['0002_test'])
    const breaking = createMigration(3, text)
    await expect(migrate(db, { migrations: [schema, harmless, breaking] })).rejects.toThrow(
      'violate a foreign key',
    )
    expect(await db.values(sql`select count(*) from p, pair`)).toEqual([[2]])
    // rows that already violated a foreign key do not count
    await db.run(sql`delete from p`)
    await db.run(sql`insert into p values (3, 'w')`)
    expect(
      await migrate(db, { migrations: [schema, harmless, createMigration(4, 'create table d (id)')] }),
    ).toEqual(['0004_test'])
    expect(server.streamCount).toBe(0)
    await close()
  })

  test('a foreign key that cannot be checked is rejected if it is new, and only reported with a warning if it already existed', async () => {
    const { db, close } = await openServer()
    const unknown = createMigration(
      1,
      'create table p (id integer);create table c (p references p (missing))',
    )
    await expect(migrate(db, { migrations: [unknown] })).rejects.toThrow('cannot be checked, in c')
    await db.run(sql`create table p (id integer)`)
    await db.run(sql`create table c (p references p (missing))`)
    await db.run(sql.raw('create table "a ""quote""" (id integer)'))
    const warnings: string[] = []
    const onWarning = (message: string): void => void warnings.push(message)
    const options = { migrations: [createMigration(1, 'create table d (id)')], onWarning }
    expect(await migrate(db, { ...options, migrationsTable: 'my "log"' })).toEqual(['0001_test'])
    expect(warnings).toEqual([expect.stringMatching(/^foreign keys of c, a "quote" are not checked/)])
    await close()
  })
})
