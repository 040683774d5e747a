import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { createClient } from '@batonsql/core'
import { type BatonDatabase, drizzle } from '@batonsql/drizzle-driver'
import {
  MigrationError,
  type MigrationSource,
  migrate,
  pendingMigrations,
} from '@batonsql/drizzle-driver/migrator'
import { startLocalServer } from '@batonsql/local-server'
import { sql } from 'drizzle-orm'
import { drizzle as libsqlDrizzle } from 'drizzle-orm/libsql/http'
import { migrate as drizzleMigrate } from 'drizzle-orm/libsql/migrator'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { countRequests } from '../../support/fixtures.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { openTestServer, type TestDatabase, type TestServer } from '../../support/test-server.ts'

let server: TestServer
let database: TestDatabase
let db: BatonDatabase

beforeEach(async () => {
  server ??= await openTestServer()
  database = await server.createDatabase()
  db = drizzle(createClient(database.config))
})
afterEach(() => db.$client.close())

const countRequestsOf = (work: () => Promise<unknown>): Promise<number> => countRequests(database, work)
const createMigration = (number: number, ...statements: string[]): MigrationSource => ({
  tag: `000${number}_test`,
  sql: statements.join(';--> statement-breakpoint\n'),
  when: 1_700_000_000_000 + number,
})
/** Returns a number that the database contains. */
const read = async (query: string): Promise<unknown> => (await db.values<[unknown]>(sql.raw(query)))[0]?.[0]
const readTables = async (): Promise<unknown[]> => {
  const rows = await db.all<{ name: string }>(
    sql`select name from sqlite_schema where type = 'table' and name not like 'sqlite%' and name not like 'libsql%' order by name`,
  )
  return rows.map(({ name }) => name)
}
const createA = createMigration(1, 'create table a (id integer)')
const createB = createMigration(2, 'create table b (id integer)')

test.each<[object, string]>([
  [{ init: true }, 'unknown option init; the options are migrationsFolder, migrations, migrationsTable'],
  [{ dryrun: true }, 'unknown option dryrun'],
  [{ dryRun: 'yes' }, 'dryRun must be boolean'],
  [{ outOfOrder: 'reject' }, "outOfOrder must be 'apply' or 'error', not 'reject'"],
  [{ transaction: 0 }, 'transaction must be boolean'],
  [{ onWarning: 'log' }, 'onWarning must be function'],
  [{ timeoutMs: '5' }, 'timeoutMs must be number'],
  [{ migrations: [{ tag: 'a', when: 1 }] }, 'migrations[0].sql must be a string, not undefined'],
  [{ migrations: [createA, { ...createB, when: '1' }] }, 'migrations[1].when must be a number, not string'],
  [{ migrations: new Map() }, 'migrations must be an array, not a value of type Map'],
])('rejects the option %o', async (options, message) => {
  const config = { migrations: [createA], ...options }
  await expect(migrate(db, config)).rejects.toThrow(message)
  await expect(pendingMigrations(db, config)).rejects.toThrow(message)
  expect(await db.values(sql`select name from sqlite_schema where name = 'a'`)).toEqual([])
})

test('migrating takes two requests, or one if nothing is pending, and returns what was applied', async () => {
  const migratesTo = (tags: string[]) => () =>
    expect(migrate(db, { migrations: [createA] })).resolves.toEqual(tags)
  expect(await countRequestsOf(migratesTo(['0001_test']))).toBe(2)
  expect(await countRequestsOf(migratesTo([]))).toBe(1)
  expect(await migrate(db, { migrations: [createA, createB] })).toEqual(['0002_test'])
  expect(await migrate(db, { migrations: [] })).toEqual([])
  expect(await readTables()).toEqual(['__drizzle_migrations', 'a', 'b'])
})

test('listing pending migrations takes one request, and changes nothing', async () => {
  const bothMigrations = { migrations: [createA, createB] }
  const listBoth = () =>
    expect(pendingMigrations(db, bothMigrations)).resolves.toEqual(['0001_test', '0002_test'])
  expect(await countRequestsOf(listBoth)).toBe(1)
  expect(await readTables()).toEqual([])
  await migrate(db, { migrations: [createB] })
  expect(await pendingMigrations(db, bothMigrations)).toEqual(['0001_test'])
  const planned = [{ tag: '0001_test', statements: ['create table a (id integer)'] }]
  expect(await migrate(db, { ...bothMigrations, dryRun: true })).toEqual(planned)
  expect(await readTables()).toEqual(['__drizzle_migrations', 'b'])
  const inOrder = pendingMigrations(db, { ...bothMigrations, outOfOrder: 'error' })
  await expect(inOrder).rejects.toThrow('migration 0001_test is older than an applied one')
  await migrate(db, bothMigrations)
  expect(await pendingMigrations(db, bothMigrations)).toEqual([])
  expect(await pendingMigrations(db, { migrations: [] })).toEqual([])
})

const backend = (['embedded', 'sqld'] as const).find((name) => name === inject('target'))

test.runIf(backend)('needs no write permission if nothing is pending', async () => {
  await using local = await startLocalServer({ backend: backend as 'embedded', auth: true })
  const address = await local.createDatabase('app')
  const owner = drizzle({ connection: address })
  await migrate(owner, { migrations: [createA] })
  const authToken = await local.createToken('app', { authorization: 'read-only' })
  const reader = drizzle({ connection: { url: address.url, authToken } })
  expect(await migrate(reader, { migrations: [createA] })).toEqual([])
  const rejection = { name: 'MigrationError', cause: { status: 403 } }
  await expect(migrate(reader, { migrations: [createA, createB] })).rejects.toMatchObject(rejection)
  await local.updateDatabase('app', { blockWrites: true })
  expect(await migrate(owner, { migrations: [createA] })).toEqual([])
  const blocked = { cause: { code: 'BLOCKED' } }
  await expect(migrate(owner, { migrations: [createA, createB] })).rejects.toMatchObject(blocked)
  await Promise.all([owner.$client.close(), reader.$client.close()])
})

describe('the output of drizzle-kit', () => {
  const folder = fileURLToPath(new URL('../../fixtures/drizzle-cascade/migrations', import.meta.url))

  test('rebuilding a parent table keeps every row of its cascading children', async () => {
    const files = readMigrationFiles({ migrationsFolder: folder })
    const first = await readFile(`${folder}/0000_v1.sql`, 'utf8')
    await migrate(db, { migrations: [{ tag: '0000_v1', sql: first, when: files[0]!.folderMillis }] })
    await db.run(sql`insert into parent (id, name, age) values (1, 'a', 5)`)
    await db.run(sql`insert into child (id, parent_id) values (1, 1), (2, 1), (3, 1)`)
    expect(await migrate(db, { migrationsFolder: folder })).toEqual(['0001_v2'])
    expect(await read('select count(*) from child')).toBe(3)
    expect(await read('select typeof(age) from parent')).toBe('text')
    const violation = { cause: { constraint: { kind: 'foreign_key' } } }
    await expect(db.run(sql`insert into child values (9, 9)`)).rejects.toMatchObject(violation)
  })

  test.each(['before', 'after'])('Drizzle’s own migrator can run %s ours', async (order) => {
    const libsqlDb = libsqlDrizzle({ connection: database })
    const steps = [
      () => drizzleMigrate(libsqlDb, { migrationsFolder: folder }),
      () => migrate(db, { migrationsFolder: folder }),
    ]
    for (const step of order === 'before' ? steps : steps.reverse()) await step()
    const files = readMigrationFiles({ migrationsFolder: folder })
    const journal = await db.values(sql`select hash, created_at from __drizzle_migrations`)
    expect(journal).toEqual(files.map(({ hash, folderMillis }) => [hash, folderMillis]))
  })

  test('the error names a folder without a journal', async () => {
    await expect(migrate(db, { migrationsFolder: './nowhere' })).rejects.toThrow('meta/_journal.json')
    // @ts-expect-error neither folder nor migrations
    await expect(migrate(db, {})).rejects.toThrow('migrationsFolder')
    await expect(migrate(db, { migrationsFolder: '' })).rejects.toThrow('expected either `migrationsFolder`')
  })

  test.each(['<<<<<<< HEAD\n{}', '{}', 'null', ''])(
    'the error names a malformed journal: %j',
    async (text) => {
      const directory = createTemporaryDirectory()
      await mkdir(`${directory}/meta`)
      await writeFile(`${directory}/meta/_journal.json`, text)
      await expect(migrate(db, { migrationsFolder: directory })).rejects.toThrow(
        `${directory}/meta/_journal.json is not a journal of drizzle-kit`,
      )
    },
  )
})

describe('all or nothing', () => {
  const creation = createMigration(
    1,
    'create table p (id integer primary key);create table c (p integer references p)',
  )

  test('the error names the failing statement, and no part of any migration is kept', async () => {
    const broken = createMigration(2, 'create table b (id integer)', 'insert into nowhere values (1)')
    const migrating = migrate(db, { migrations: [createA, broken] })
    const error: unknown = await migrating.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(MigrationError)
    expect(error).toMatchObject({
      migration: '0002_test',
      statementIndex: 1,
      sql: 'insert into nowhere values (1)',
      message: expect.stringMatching(/^migration 0002_test, statement 2 failed: .*nowhere/) as string,
      cause: { name: 'SqlError', statementIndex: 1 },
    })
    expect(await readTables()).toEqual([])
  })

  test('the error also names a statement that is not valid SQL', async () => {
    const broken = createMigration(2, 'create table b (id integer)', 'creat table c (id integer)')
    await expect(migrate(db, { migrations: [createA, broken] })).rejects.toMatchObject({
      migration: '0002_test',
      statementIndex: 1,
      sql: 'creat table c (id integer)',
      cause: { statementIndex: 1 },
    })
    expect(await readTables()).toEqual([])
  })

  test.each([
    [
      'begin; create table b (id integer); commit',
      /^migration 0002_test, statement 1 failed: BEGIN is not allowed here/,
    ],
    [
      "create table b (t text);\n--> statement-breakpoint\n\ninsert into b values ('it);",
      /^migration 0002_test, line 4, column 23: unterminated quote$/,
    ],
  ])('the error also names the migration of text that is not sent: %s', async (text, message) => {
    for (const transaction of [true, false]) {
      const migrations = [createA, createMigration(2, text)]
      const error: unknown = await migrate(db, { migrations, transaction }).catch((reason: unknown) => reason)
      expect(error).toBeInstanceOf(MigrationError)
      expect(error).toMatchObject({
        migration: '0002_test',
        message: expect.stringMatching(message) as string,
      })
    }
  })

  test('a migration that leaves rows violating a foreign key is rejected', async () => {
    await migrate(db, { migrations: [creation] })
    await db.run(sql`insert into p values (1)`)
    await db.run(sql`insert into c values (1)`)
    const deletion = createMigration(2, 'create table extra (id integer)', 'delete from p')
    await expect(migrate(db, { migrations: [creation, deletion] })).rejects.toThrow('violate a foreign key')
    expect(await readTables()).toEqual(['__drizzle_migrations', 'c', 'p'])
    expect(await read('select count(*) from p')).toBe(1)
  })

  test('rows that already violated a foreign key do not prevent a migration', async () => {
    await migrate(db, { migrations: [creation] })
    await db.$client.batch(['insert into c values (77)'], { foreignKeys: 'off' })
    expect(await migrate(db, { migrations: [creation, createB] })).toEqual(['0002_test'])
  })

  describe('with an existing foreign key that cannot be checked', () => {
    const warnings: string[] = []
    const options = { onWarning: (message: string) => void warnings.push(message) }

    beforeEach(async () => {
      warnings.length = 0
      await db.$client.batch(
        [
          'create table p (id integer)',
          'create table "c, ""broken""" (p integer references p (id))',
          'insert into "c, ""broken""" values (1)',
          'create table good (id integer primary key)',
          'create table child (id integer references good)',
          'insert into good values (1)',
          'insert into child values (1), (1)',
          'create table dirty (id integer references good)',
          'insert into dirty values (7)',
        ],
        { foreignKeys: 'off' },
      )
    })

    test('continues, and the warning names its table', async () => {
      expect(await migrate(db, { migrations: [createA], ...options })).toEqual(['0001_test'])
      expect(warnings).toEqual([expect.stringContaining('c, "broken"')])
      expect(warnings[0]).not.toContain('child')
      expect(await countRequestsOf(() => migrate(db, { migrations: [createA], ...options }))).toBe(1)
      expect(warnings).toHaveLength(1)
      // the same with an existing migrations table
      expect(await migrate(db, { migrations: [createA, createB], ...options })).toEqual(['0002_test'])
      expect(warnings).toHaveLength(2)
    })

    test('the other tables are still checked', async () => {
      await migrate(db, { migrations: [createA], ...options })
      const deletion = createMigration(2, 'create table extra (id integer);delete from good')
      const deleting = migrate(db, { migrations: [createA, deletion], ...options })
      await expect(deleting).rejects.toThrow('violate a foreign key')
      expect(await read('select count(*) from good')).toBe(1)
      const second = createMigration(
        2,
        'create table d (p integer references p (id));insert into d values (1)',
      )
      const referring = migrate(db, { migrations: [createA, second], ...options })
      await expect(referring).rejects.toThrow('cannot be checked')
    })

    test('a migration can repair or drop the key', async () => {
      const repairing = createMigration(2, 'create unique index p_id on p (id);insert into p values (1)')
      expect(await migrate(db, { migrations: [repairing], ...options })).toEqual(['0002_test'])
      const dropping = createMigration(3, 'drop table "c, ""broken""";drop table child;drop table dirty')
      expect(await migrate(db, { migrations: [repairing, dropping], ...options })).toEqual(['0003_test'])
      expect(warnings).toHaveLength(1)
    })
  })

  test('a new foreign key that cannot be checked is rejected with the server’s message', async () => {
    const mismatched = createMigration(
      1,
      'create table p (id integer);create table c (p integer references p (id));insert into c values (1)',
    )
    await expect(migrate(db, { migrations: [mismatched] })).rejects.toThrow('foreign key mismatch')
  })
})

describe('the error on the wrong database names it, and says what to do', () => {
  test('if it has the tables of an application, but no applied migrations', async () => {
    await db.run(sql`create table a (id integer)`)
    await expect(migrate(db, { migrations: [createA] })).rejects.toThrow(
      `${db.$client.url} has tables, but no migration was applied to it: is it the right database? If so, mark`,
    )
  })

  test('if it has the migrations of another application', async () => {
    await migrate(db, { migrations: [createA] })
    const other = { ...createMigration(5, 'create table a (n text)'), tag: 'other' }
    await expect(migrate(db, { migrations: [other] })).rejects.toThrow(
      `none of the migrations that were applied to ${db.$client.url} is among yours`,
    )
    expect(await read('select count(*) from __drizzle_migrations')).toBe(1)
  })

  test.each(['', "insert into __drizzle_migrations values (1, 'x')"])(
    'if the table of migrations is not Drizzle’s: %s',
    async (insert) => {
      await db.run(sql`create table __drizzle_migrations (id integer, name text)`)
      if (insert) await db.run(sql.raw(insert))
      for (const call of [migrate, pendingMigrations])
        await expect(call(db, { migrations: [createA] })).rejects.toThrow(
          `${db.$client.url} has a table __drizzle_migrations that Drizzle did not create: check the URL`,
        )
      expect(await migrate(db, { migrations: [createA], migrationsTable: 'other' })).toEqual(['0001_test'])
    },
  )

  test('for every other error', async () => {
    const broken = createMigration(1, 'insert into nowhere values (1)')
    await expect(migrate(db, { migrations: [broken] })).rejects.toThrow(
      new RegExp(`nowhere; the database is ${db.$client.url}$`),
    )
  })
})

describe('which migrations are pending', () => {
  test('a migration that a merge inserted between applied ones is applied, or rejected on request', async () => {
    const createC = createMigration(3, 'create table c (id integer)')
    const migrations = [createA, createB, createC]
    await migrate(db, { migrations: [createA, createC] })
    await expect(migrate(db, { migrations, outOfOrder: 'error' })).rejects.toThrow('0002_test is older')
    expect(await migrate(db, { migrations })).toEqual(['0002_test'])
  })

  test('a time that is not a number does not hide that a migration is older', async () => {
    await migrate(db, { migrations: [createB] })
    await db.run(sql`insert into __drizzle_migrations (hash, created_at) values ('x', 'abc')`)
    const migrating = migrate(db, { migrations: [createA, createB], outOfOrder: 'error' })
    await expect(migrating).rejects.toThrow('0001_test is older')
  })

  test('a migration whose SQL or time was changed afterwards is not applied again', async () => {
    await migrate(db, { migrations: [createA] })
    expect(await migrate(db, { migrations: [{ ...createA, sql: `${createA.sql}\r\n` }] })).toEqual([])
    expect(await migrate(db, { migrations: [{ ...createA, when: 5 }] })).toEqual([])
  })

  test('two migrations with the same SQL are distinct', async () => {
    await db.run(sql`create table log (n integer)`)
    const migrations = [1, 2].map((number) => createMigration(number, 'insert into log values (1)'))
    await migrate(db, { migrations: migrations.slice(0, 1) })
    expect(await migrate(db, { migrations })).toEqual(['0002_test'])
    expect(await read('select count(*) from log')).toBe(2)
  })
})

test('a token function that throws undefined, at any request, is not replaced by an error of our own', async () => {
  const migrations = [createMigration(1, 'create table a (b)')]
  for (let failing = 0; ; failing++) {
    let calls = 0
    const authToken = () => (calls++ === failing ? Promise.reject() : (database.authToken ?? ''))
    const withoutToken = drizzle(createClient({ ...database.config, authToken }))
    const outcome = await migrate(withoutToken, { migrations }).then(
      () => 'migrated',
      (error: unknown) => error,
    )
    await withoutToken.$client.close()
    if (outcome === 'migrated') break
    if (outcome !== undefined)
      expect(outcome).toMatchObject({
        name: 'MigrationError',
        message: expect.stringContaining('failed: undefined'),
      })
  }
})

test('concurrent deployments apply each migration once', async () => {
  await db.run(sql`create table log (n integer)`)
  const migrations = [1, 2].map((number) => createMigration(number, `insert into log values (${number})`))
  const applied = await Promise.all(Array.from({ length: 10 }, () => migrate(db, { migrations })))
  expect(applied.filter((tags) => tags.length > 0)).toEqual([['0001_test', '0002_test']])
  expect(await db.values(sql`select n from log order by n`)).toEqual([[1], [2]])
})

describe('files', () => {
  test('missing or extra breakpoints are harmless', async () => {
    const text = `--> statement-breakpoint
      create table a (t text default ';', end integer default 1);
      create table b (id integer); -- the end;
      --> statement-breakpoint
      create trigger t after insert on a begin insert into b values (case when new.end then 2 end); delete from a; end;
      --> statement-breakpoint
      /* nothing */
      --> statement-breakpoint
      `
    await migrate(db, { migrations: [createMigration(1, text)] })
    await db.run(sql`insert into a (t) values ('x')`)
    expect(await read('select id from b')).toBe(2)
  })

  test('the table can have another name', async () => {
    await migrate(db, { migrations: [createA], migrationsTable: 'my "log"' })
    expect(await readTables()).toEqual(['a', 'my "log"'])
    expect(await migrate(db, { migrations: [createA], migrationsTable: 'my "log"' })).toEqual([])
  })

  test('rebuilding a parent table without a transaction keeps every row of its children', async () => {
    const creation = createMigration(
      1,
      `create table parent (id integer primary key); create table child (parent integer references parent (id) on delete cascade);
      insert into parent values (1); insert into child values (1)`,
    )
    const rebuild = createMigration(
      2,
      `PRAGMA foreign_keys=OFF; create table new_parent (id integer primary key, name text);
      insert into new_parent select id, null from parent; drop table parent; alter table new_parent rename to parent;
      PRAGMA foreign_keys=ON`,
    )
    await migrate(db, { migrations: [creation, rebuild], transaction: false })
    expect(await read('select count(*) from child')).toBe(1)
    expect(await read('pragma foreign_keys')).toBe(1)
  })

  test('applies migrations statement by statement without a transaction', async () => {
    const broken = createMigration(2, 'create table b (id integer);insert into nowhere values (1)')
    const migrating = migrate(db, { migrations: [createA, broken], transaction: false })
    await expect(migrating).rejects.toMatchObject({ migration: '0002_test', statementIndex: 1 })
    expect(await readTables()).toEqual(['__drizzle_migrations', 'a', 'b'])
  })

  test('without a transaction, an error names the migration that was applied and could not be recorded', async () => {
    await migrate(db, { migrations: [createA] })
    await db.run(
      "create trigger full before insert on __drizzle_migrations begin select raise(abort, 'no more'); end",
    )
    const migrations = [createA, createMigration(2, 'create table b (id integer)')]
    const error: unknown = await migrate(db, { migrations, transaction: false }).catch(
      (reason: unknown) => reason,
    )
    expect(error).toMatchObject({ name: 'MigrationError', migration: '0002_test', statementIndex: null })
    expect((error as Error).message).toMatch(/^migration 0002_test failed: .*no more/)
    expect(await readTables()).toEqual(['__drizzle_migrations', 'a', 'b'])
  })

  test('without a transaction, an error of the table of migrations is a MigrationError too', async () => {
    const migrating = migrate(db, {
      migrations: [createA],
      transaction: false,
      migrationsTable: 'sqlite_migrations',
    })
    await expect(migrating).rejects.toMatchObject({ name: 'MigrationError', migration: null })
    expect(await readTables()).toEqual([])
  })
})
