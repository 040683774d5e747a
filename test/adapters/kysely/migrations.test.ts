import { SqlError } from '@batonsql/core'
import { BatonDialect, batch, type DialectOptions } from '@batonsql/kysely-dialect'
import { Kysely, type QueryExecutorProvider, type RawBuilder, sql } from 'kysely'
import { type Migration, type MigrationResultSet, Migrator, type MigratorProps } from 'kysely/migration'
import { afterAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { openTestServer, type TestDatabase, type TestServer } from '../../support/test-server.ts'
import { waitFor } from '../../support/wait-for.ts'

let server: TestServer
let database: TestDatabase
const openedDatabases: Kysely<unknown>[] = []

beforeEach(async () => {
  server ??= await openTestServer()
  database = await server.createDatabase()
})
afterAll(() => Promise.all(openedDatabases.map((db) => db.destroy())))

const openKysely = (options: DialectOptions = {}, log?: (text: string) => void): Kysely<unknown> => {
  const db = new Kysely<unknown>({
    dialect: new BatonDialect({ url: database.url, authToken: database.authToken, ...options }),
    log: (event) => log?.(event.query.sql),
  })
  openedDatabases.push(db)
  return db
}
const createMigrator = (db: Kysely<unknown>, migrations: Record<string, Migration>): Migrator =>
  new Migrator({ db, provider: { getMigrations: async () => migrations } })
const migrate = (db: Kysely<unknown>, migrations: Record<string, Migration>): Promise<MigrationResultSet> =>
  createMigrator(db, migrations).migrateToLatest()
const listTables = async (db = openKysely()): Promise<string[]> =>
  (await db.introspection.getTables()).map(({ name }) => name)
const messageLike = (pattern: RegExp) => ({ message: expect.stringMatching(pattern) as string })
const readLock = async (db: Kysely<unknown>): Promise<unknown[]> =>
  (await sql`select is_locked from kysely_migration_lock`.execute(db)).rows
const runs = (...statements: string[]): Migration => ({
  async up(db) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
})
const createTable = (name: string): Migration => ({
  up: (db) => db.schema.createTable(name).addColumn('id', 'integer').execute(),
  down: (db) => db.schema.dropTable(name).execute(),
})

test('migrates up and down, and takes six requests if nothing is pending', async () => {
  const db = openKysely()
  const migrator = createMigrator(db, { '1': createTable('a'), '2': createTable('b') })
  const success = { status: 'Success' }
  expect(await migrator.migrateToLatest()).toMatchObject({ results: [success, success] })
  const before = database.requestCount()
  expect(await migrator.migrateToLatest()).toEqual({ results: [] })
  expect(database.requestCount() - before).toBe(6)
  await migrator.migrateDown()
  expect(await listTables(db)).toEqual(['a'])
})

/** Creates migrations that record their runs, and create a table. */
const countedMigrations = (names: readonly string[]) => {
  const runs: string[] = []
  const create = (name: string): Migration => ({
    async up(db) {
      runs.push(name)
      await db.schema.createTable(name).addColumn('id', 'integer').execute()
    },
  })
  return { runs, migrations: Object.fromEntries(names.map((name) => [name, create(name)])) }
}

test.each([
  ['a hundred migrators of one instance', () => Array.from({ length: 100 }).fill(openKysely())],
  [
    'ten transactional migrators',
    () => Array.from({ length: 10 }, () => openKysely({ transactionalMigrations: true })),
  ],
] as [string, () => Kysely<unknown>[]][])('%s run each migration once', async (_, open) => {
  const { migrations, runs } = countedMigrations(['a', 'b', 'c'])
  const outcomes = await Promise.all(open().map((db) => migrate(db, migrations)))
  expect(outcomes.filter((outcome) => outcome.error !== undefined)).toEqual([])
  expect(runs).toEqual(['a', 'b', 'c'])
})

test('the lock of a crashed migrator is taken over when its lease expires; the lock of a running one is not', async () => {
  const db = openKysely()
  await migrate(db, {})
  const extendLease = 'update kysely_migration_lock set is_locked = unixepoch() + 2 returning is_locked'
  const { rows: leases } = await sql.raw<{ is_locked: number }>(extendLease).execute(db)
  expect(await migrate(db, { '1': createTable('a') })).not.toHaveProperty('error')
  // by the server's clock, in seconds
  const { rows: clocks } = await sql<{ now: number }>`select unixepoch() as now`.execute(db)
  expect(clocks[0]?.now).toBeGreaterThanOrEqual(leases[0]?.is_locked as number)
  expect(await readLock(db)).toEqual([{ is_locked: 0 }])
})

test('a migrator that waits for the migration lock leaves the write lock to the owner of the migration lock', async () => {
  const db = openKysely()
  await migrate(db, {})
  const owner = await db.startTransaction().execute()
  await sql`update kysely_migration_lock set is_locked = unixepoch() + 60`.execute(db)
  await sql`create table a (id integer)`.execute(owner)
  const waiter = migrate(db, { '1': createTable('b') })
  const before = database.requestCount()
  // an update that changes nothing would hang until the owner's transaction has ended
  await waitFor(() => expect(database.requestCount() - before).toBeGreaterThan(8))
  await owner.commit().execute()
  await sql`update kysely_migration_lock set is_locked = 0`.execute(db)
  expect(await waiter).not.toHaveProperty('error')
  expect(await listTables(db)).toEqual(['a', 'b'])
})

test('releasing a lock that was not acquired does nothing', async () => {
  const db = openKysely()
  await migrate(db, {})
  const before = database.requestCount()
  const lock = { lockTable: 'kysely_migration_lock', lockRowId: 'migration_lock' }
  await db.getExecutor().adapter.releaseMigrationLock(db, lock)
  expect(database.requestCount()).toBe(before)
})

test('the migration fails if the lock cannot be acquired', async () => {
  const db = openKysely()
  await migrate(db, {})
  await sql`alter table kysely_migration_lock drop column is_locked`.execute(db)
  const { error } = await migrate(db, { '1': createTable('a') })
  expect(error).toMatchObject(messageLike(/is_locked/))
  expect(await listTables(db)).toEqual([])
})

test('only its owner can release the lock', async () => {
  const db = openKysely()
  await migrate(db, {})
  await migrate(db, { '1': runs('update kysely_migration_lock set is_locked = 9999999999') })
  expect(await readLock(db)).toEqual([{ is_locked: 9999999999 }])
})

test('the lock is released, and the results are not lost, if a loop over stream() keeps the connection', async () => {
  const db = openKysely()
  const keepConnection: Migration = {
    async up(connection) {
      const reason = new TypeError('the query waits for a loop over stream()')
      vi.spyOn(connection.getExecutor(), 'provideConnection').mockRejectedValue(reason)
    },
  }
  const { results } = await migrate(db, { '1': keepConnection })
  expect(results).toMatchObject([{ migrationName: '1', status: 'Success' }])
  expect(await readLock(db)).toEqual([{ is_locked: 0 }])
})

describe('the lease', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))

  test('is renewed while migrations run', async () => {
    const updates: string[] = []
    const db = openKysely({}, (text) => {
      if (/^update .*unixepoch/.test(text)) updates.push(text)
    })
    const slowMigration: Migration = {
      async up(trx) {
        updates.length = 0
        vi.advanceTimersByTime(25_000)
        await trx.schema.createTable('a').addColumn('id', 'integer').execute()
      },
    }
    expect(await migrate(db, { '1': slowMigration })).not.toHaveProperty('error')
    expect(updates).toHaveLength(2)
    vi.advanceTimersByTime(60_000)
    await sql`select 1`.execute(db)
    expect(updates).toHaveLength(2)
  })

  test('is renewed and released even if the response to a renewal was lost', async () => {
    const db = openKysely()
    const ends: unknown[] = []
    const slowMigration: Migration = {
      async up(trx) {
        // what such a renewal does
        await sql`update kysely_migration_lock set is_locked = is_locked + 10`.execute(trx)
        vi.advanceTimersByTime(10_000)
        const { rows } = await sql`select is_locked - unixepoch() <= 30 as "isRenewed"
          from kysely_migration_lock`.execute(trx)
        ends.push(...rows)
      },
    }
    expect(await migrate(db, { '1': slowMigration })).not.toHaveProperty('error')
    expect(ends).toEqual([{ isRenewed: 1 }])
    expect(await readLock(db)).toEqual([{ is_locked: 0 }])
  })
})

test('the error of a failing migration is reported, and the lock is released', async () => {
  const db = openKysely()
  const ownError = new Error('own error')
  const failingMigration: Migration = {
    async up() {
      throw ownError
    },
  }
  expect((await migrate(db, { '1': failingMigration })).error).toBe(ownError)
  expect(await migrate(db, { '1': createTable('a') })).not.toHaveProperty('error')
})

test('the error of a migration that fails halfway says that its first statements are kept', async () => {
  const db = openKysely()
  const errorOf = async (...statements: string[]): Promise<unknown> =>
    (await migrate(db, { '1': runs(...statements) })).error
  for (const reads of [[], ['pragma foreign_key_check', '-- a\npragma user_version']])
    expect(await errorOf(...reads, 'select 1 from nowhere')).toMatchObject({
      message: expect.not.stringContaining('transactionalMigrations') as string,
    })
  expect(await errorOf('/* a */ pragma user_version = 3', 'select 1 from nowhere')).toMatchObject(
    messageLike(/the statements before this one are kept/),
  )
  const error = await errorOf('create table kept (id integer)', 'select 1 from nowhere')
  expect(error).toBeInstanceOf(SqlError)
  const message = expect.stringMatching(
    /^(?:SqlError: )?the statements before this one are kept, .*transaction.*: .*nowhere/,
  ) as string
  const rejection = { sql: 'select 1 from nowhere', outcome: 'not_applied' }
  expect(error).toMatchObject({ ...rejection, message, stack: message })
  expect(await listTables(db)).toEqual(['kept'])
  const unique = await errorOf('create table "$&" (a unique)', 'insert into "$&" values (1), (1)')
  expect(unique).toMatchObject({
    constraint: { table: '$&', columns: ['a'] },
    stack: expect.stringContaining('failed: $&.a\n') as string,
  })
  // outside of the migrations there is no hint
  await expect(sql`select 1 from nowhere`.execute(db)).rejects.toThrow(/nowhere$/)
})

const fail = sql`select 1 from nowhere`
const insertKept = sql`insert into kept values (1)`
/** Runs a statement as a stream, and reads at most one row. */
async function stream(query: RawBuilder<unknown>, db: Kysely<unknown>): Promise<void> {
  for await (const _ of db.getExecutor().stream(query.compile(db), 1)) break
}

test.each<[string, (db: Kysely<unknown>) => Promise<unknown>]>([
  ['a batch', (db) => batch(db, [insertKept, insertKept])],
  ['a committed transaction', (db) => db.transaction().execute((trx) => insertKept.execute(trx))],
  ['a stream that was left', (db) => stream(sql`insert into kept values (1), (2) returning a`, db)],
  ['a streamed statement without rows', (db) => stream(insertKept, db)],
  [
    'a transaction with a stream',
    (db) => db.transaction().execute((trx) => stream(sql`insert into kept values (1), (2) returning a`, trx)),
  ],
  [
    'a raw transaction',
    async (db) => {
      for (const text of ['begin', 'insert into kept values (1)', 'commit']) await sql.raw(text).execute(db)
    },
  ],
  [
    'a transaction of a session, and another one that only reads',
    async (db) => {
      await sql`pragma foreign_keys = off`.execute(db)
      await db.transaction().execute((trx) => insertKept.execute(trx))
      await db.transaction().execute((trx) => sql`select 1`.execute(trx))
    },
  ],
])('the error of a migration says what is kept after %s', async (_, change) => {
  const db = openKysely()
  await sql`create table kept (a)`.execute(db)
  const errorOf = async (failing: (db: Kysely<unknown>) => Promise<unknown>): Promise<unknown> => {
    const up = async (db: Kysely<unknown>): Promise<void> => {
      await change(db)
      await failing(db)
    }
    return (await migrate(db, { '1': { up } })).error
  }
  const error = await errorOf((db) => fail.execute(db))
  expect(error).toMatchObject(messageLike(/^the statements before this one are kept, .*nowhere/))
  expect(await errorOf((db) => stream(fail, db))).toMatchObject(
    messageLike(/^the statements before this one are kept, .*nowhere/),
  )
  expect(await errorOf((db) => sql`select ${Symbol('s')}`.execute(db))).toSatisfy(
    (error) => error instanceof TypeError && /^the statements .* are kept, .*parameter 1/.test(error.message),
  )
  expect(
    await errorOf(async (db) => {
      await sql`create table if not exists owner (id integer primary key)`.execute(db)
      await sql`create table if not exists pet (owner references owner on delete cascade)`.execute(db)
      await sql`insert into owner values (1)`.execute(db)
      await sql`insert into pet values (1)`.execute(db)
      await sql`pragma foreign_keys = on`.execute(db)
      await stream(sql`drop table owner`, db)
    }),
  ).toMatchObject(messageLike(/^the statements before this one are kept, .*DROP TABLE owner would delete/))
  const message = messageLike(/^the statements before this batch are kept, .*nowhere/)
  const batchError = await errorOf((db) => batch(db, [insertKept, fail]))
  expect(batchError).toMatchObject({ ...message, statementIndex: 1 })
  const { rows } = await sql<{ a: number }>`select a from kept`.execute(db)
  expect(rows.length).toBeGreaterThan(1)
})

test.each<[string, (db: Kysely<unknown>) => Promise<unknown>]>([
  ['a batch that only reads', (db) => batch(db, [sql`select 1`])],
  [
    'a transaction that was rolled back',
    (db) =>
      db
        .transaction()
        .execute(async (trx) => {
          await sql`create table kept (a)`.execute(trx)
          throw new Error('own error')
        })
        .catch(() => {}),
  ],
  ['an empty transaction', (db) => db.transaction().execute(async () => {})],
  ['a failed stream', (db) => stream(sql`insert into nowhere values (1)`, db).catch(() => {})],
  ['a failed batch', (db) => batch(db, [sql`create table kept (a)`, fail]).catch(() => {})],
])('the error of a migration has no hint after %s', async (_, attempt) => {
  const db = openKysely()
  const up = async (db: Kysely<unknown>): Promise<void> => {
    await attempt(db)
    await fail.execute(db)
  }
  const { error } = await migrate(db, { '1': { up } })
  expect(error).toMatchObject(messageLike(/nowhere/))
  expect(error).toMatchObject({ message: expect.not.stringContaining('are kept') as string })
})

test('with transactionalMigrations, a failing migration leaves nothing behind', async () => {
  const db = openKysely({ transactionalMigrations: true })
  const failingMigration = runs('create table b (id integer)', 'select 1 from nowhere')
  const { error } = await migrate(db, { '1': createTable('a'), '2': failingMigration })
  expect(error).toMatchObject(messageLike(/nowhere$/))
  expect(await listTables(db)).toEqual([])
  await migrate(db, { '1': createTable('a'), '2': createTable('b') })
  expect(await listTables(db)).toEqual(['a', 'b'])
})

test('supports a transaction for each migration since Kysely 0.30', async () => {
  const failingMigration: Migration = {
    async up(trx) {
      await trx.schema.createTable('b').addColumn('id', 'integer').execute()
      throw new Error('own error')
    },
  }
  const provider = { getMigrations: async () => ({ '1': createTable('a'), '2': failingMigration }) }
  const errorOf = async (options: DialectOptions): Promise<unknown> => {
    const props = { db: openKysely(options), provider, transactionMode: 'per-migration' } as MigratorProps
    return (await new Migrator(props).migrateToLatest()).error
  }
  if (inject('kysely') === '0.30') {
    expect(await errorOf({})).toMatchObject(messageLike(/transactional DDL is not supported/))
    expect(await listTables()).toEqual([])
  }
  expect(await errorOf({ transactionalMigrations: true })).toMatchObject({ message: 'own error' })
  // earlier versions run all migrations in one transaction
  expect(await listTables()).toEqual(inject('kysely') === '0.30' ? ['a'] : [])
})

describe('a migration that rebuilds a table', () => {
  const createTables = runs(
    'create table parent (id integer primary key)',
    'create table child (parent integer references parent (id) on delete cascade)',
    'insert into parent values (1)',
    'insert into child values (1)',
  )
  const rebuild: Migration = {
    async up(db) {
      await sql`pragma foreign_keys = off`.execute(db)
      const run = async (trx: QueryExecutorProvider): Promise<void> => {
        await sql`create table new_parent (id integer primary key, name text)`.execute(trx)
        await sql`insert into new_parent select id, null from parent`.execute(trx)
        await sql`drop table parent`.execute(trx)
        await sql`alter table new_parent rename to parent`.execute(trx)
      }
      if (db.isTransaction) await run(db)
      else await db.transaction().execute(run)
      await sql`pragma foreign_keys = on`.execute(db)
    },
  }
  const readCounts = async (): Promise<unknown> =>
    (
      await sql`select (select count(*) from child) as children,
        (select count(*) from pragma_table_info('parent')) as columns`.execute(openKysely())
    ).rows[0]

  test('keeps the rows that refer to it if it turns foreign keys off', async () => {
    expect(await migrate(openKysely(), { '1': createTables, '2': rebuild })).not.toHaveProperty('error')
    expect(await readCounts()).toEqual({ children: 1, columns: 2 })
  })

  const DROPS = [
    'drop table parent',
    'DROP TABLE IF EXISTS "parent"',
    '-- rebuilt\n/* below */ drop table main.`PARENT`;',
    '/*** a * b **//**/drop table parent',
    "drop table 'parent'",
    'drop table [parent]',
    'drop/**/table--\n if /* not */ exists main /**/ . "parent"',
    'drop table"parent"',
    'drop table parent/* rebuilt */',
    'drop table parent-- rebuilt',
  ]

  test.each(DROPS)('is rejected if it would delete the rows that refer to it: %s', async (statement) => {
    await migrate(openKysely(), { '1': createTables })
    const message = messageLike(/would delete or change the rows of child that refer to it/)
    for (const options of [{}, { transactionalMigrations: true }]) {
      const { error } = await migrate(openKysely(options), { '1': createTables, '2': runs(statement) })
      expect(error).toMatchObject({ name: 'TypeError', ...message })
    }
    expect(await readCounts()).toEqual({ children: 1, columns: 1 })
  })

  test('a statement after many comments is not searched in exponential time', async () => {
    // each additional comment would double the time, beyond the time limit of the test
    const text = `${'/* a **/\n'.repeat(40)}create table commented (a)`
    expect(await migrate(openKysely(), { '1': runs(text) })).not.toHaveProperty('error')
  })

  test('is rejected in a batch, through the schema builder, and with ON DELETE SET NULL or SET DEFAULT', async () => {
    await migrate(openKysely(), { '1': createTables })
    const inBatch: Migration = { up: async (db) => void (await batch(db, [sql`drop table parent`])) }
    const inBuilder: Migration = { up: (db) => db.schema.dropTable('parent').execute() }
    const changesPet = (action: string): Migration =>
      runs(
        // the tables of a rejected migration are still there
        'drop table if exists pet',
        'drop table if exists owner',
        'create table owner (id integer primary key)',
        `create table pet (owner integer default 2 references owner on delete ${action})`,
        'insert into owner values (1), (2)',
        'insert into pet values (1)',
        'drop table owner',
      )
    for (const migration of [inBatch, inBuilder, changesPet('set null'), changesPet('set default')]) {
      const { error } = await migrate(openKysely(), { '1': createTables, '2': migration })
      expect(String(error)).toMatch(/would delete or change the rows of (?:child|pet)/)
    }
    expect(await readCounts()).toEqual({ children: 1, columns: 1 })
  })

  test.each([
    ['the rows that refer to it are deleted first', ['delete from child']],
    ['the table that refers to it is dropped first', ['drop table child']],
    ['they refer to nothing', ['update child set parent = null']],
    ['foreign keys are off', ['pragma foreign_keys = off']],
    [
      'only its own rows refer to it',
      [
        'drop table child',
        'drop table parent',
        'create table parent (id integer primary key, above integer references parent on delete cascade)',
        'insert into parent values (1, null), (2, 1)',
      ],
    ],
  ])('may drop a table if %s', async (_, before) => {
    const migrations = { '1': createTables, '2': runs(...before, 'drop table parent') }
    expect(await migrate(openKysely(), migrations)).not.toHaveProperty('error')
  })

  test('outside of a migration, a table may be dropped with the rows that refer to it', async () => {
    const db = openKysely()
    await migrate(db, { '1': createTables })
    await db.schema.dropTable('parent').execute()
    expect(await readCounts()).toEqual({ children: 0, columns: 0 })
  })

  test('is rejected with transactionalMigrations, where the pragma has no effect', async () => {
    const options = { transactionalMigrations: true }
    await migrate(openKysely(options), { '1': createTables })
    const { error } = await migrate(openKysely(options), { '1': createTables, '2': rebuild })
    const message = messageLike(/only without `transactionalMigrations`/)
    expect(error).toMatchObject({ name: 'TypeError', ...message })
    expect(await readCounts()).toEqual({ children: 1, columns: 1 })
  })
})
