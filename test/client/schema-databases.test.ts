import { type Client, createClient, executeMultiple, readRows, restore } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { migrate } from '@batonsql/drizzle-driver/migrator'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { Kysely, sql } from 'kysely'
import { afterAll, beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import { close, codes, pipeline, type WireRequest } from '../server/wire.ts'

// A schema database runs each request that changes something as a migration, in a transaction of its own, there and in its children.
// What needs a transaction over several requests is rejected before its first statement.

const target = inject('target')
const canCreate = target === 'embedded' || target === 'sqld'
let server: LocalServer
beforeAll(async () => {
  if (!canCreate) return
  server = await startLocalServer({ backend: target, databases: { other: { allowAttach: true } } })
})
afterAll(() => server?.close())

let count = 0
interface Family {
  readonly parent: Client
  readonly child: Client
  /** Sends a request to the schema database as it is; a client begins a transaction first. */
  send(request: WireRequest): Promise<void>
}
/** @param isProven whether the client has already seen that the server evaluates conditions */
async function createFamily(isProven = false): Promise<Family> {
  const name = `parent-${(count += 1)}`
  const address = await server.createDatabase(name, { isSchema: true })
  const parent = createClient(address)
  const child = createClient(await server.createDatabase(`${name}-child`, { schema: name }))
  onTestFinished(async () => {
    await Promise.all([parent.close(), child.close()])
  })
  await parent.execute('create table t (a)')
  if (isProven) await parent.batch(['select 1', 'select 2'])
  const send = async (request: WireRequest): Promise<void> =>
    expect(codes(await pipeline(address.url, [request, close]))).toEqual(['ok', 'ok'])
  return { parent, child, send }
}
const toBatch = (statements: readonly string[]): WireRequest => ({
  type: 'batch',
  batch: { steps: statements.map((sql) => ({ stmt: { sql } })) },
})
const columnsOf = async (db: Client): Promise<string> =>
  (await db.execute("select group_concat(name, '') as n from pragma_table_info('t')")).rows[0]?.[
    'n'
  ] as string

const B = 'alter table t add column b'
const C = 'alter table t add column c'

const ALLOWED: [name: string, run: (db: Client) => Promise<unknown>][] = [
  ['single statements', async (db) => [await db.execute(B), await db.execute(C)]],
  ['a batch', (db) => db.batch([B, C])],
  ['a batch without foreign keys', (db) => db.batch([B, C], { foreignKeys: 'off' })],
  ['a deferred batch', (db) => db.batch([B, C], { mode: 'deferred' })],
  ['a script', (db) => executeMultiple(db, `${B}; ${C};`)],
  [
    'migrations of Drizzle',
    (db) => migrate(drizzle(db), { migrations: [{ tag: '0', sql: `${B}; ${C};`, when: 1 }] }),
  ],
]

const REJECTED: [name: string, run: (db: Client) => Promise<unknown>][] = [
  ['a transaction', (db) => db.transaction(async (tx) => [await tx.execute(B), await tx.execute(C)])],
  [
    'a transaction that reads first',
    (db) => db.transaction(async (tx) => [await tx.execute('select * from t'), await tx.execute(B)]),
  ],
  ['a batch in a transaction', (db) => db.transaction((tx) => tx.batch([B, C]))],
  ['a deferred transaction', (db) => db.transaction((tx) => tx.execute(B), { mode: 'deferred' })],
  ['a savepoint', (db) => db.transaction((tx) => tx.savepoint((inner) => inner.execute(B)))],
  [
    'a cursor in a transaction',
    (db) =>
      db.transaction(async (tx) => {
        for await (const _ of readRows(tx, B));
      }),
  ],
  ['a script with BEGIN', (db) => executeMultiple(db, `begin; ${B}; ${C}; commit;`)],
  [
    'a script with BEGIN later',
    (db) => executeMultiple(db, `select 1; begin immediate; ${B}; ${C}; commit;`),
  ],
  [
    'a transaction of Drizzle',
    (db) =>
      drizzle(db).transaction(async (tx) => {
        await tx.run(B)
        await tx.run(C)
      }),
  ],
  [
    'a transaction of Kysely',
    (db) =>
      new Kysely<object>({ dialect: new BatonDialect({ client: db }) }).transaction().execute(async (tx) => {
        await sql.raw(B).execute(tx)
        await sql.raw(C).execute(tx)
      }),
  ],
]

for (const isProven of [false, true]) {
  const when = isProven ? 'after other requests' : 'as the first request'
  test.skipIf(!canCreate).each(ALLOWED)(
    `${when}, %s is applied to the schema database and its child`,
    async (_, run) => {
      const { parent, child } = await createFamily(isProven)
      await run(parent)
      expect([await columnsOf(parent), await columnsOf(child)]).toEqual(['abc', 'abc'])
    },
  )

  test.skipIf(!canCreate).each(REJECTED)(
    `${when}, %s is rejected, and nothing is applied`,
    async (_, run) => {
      const { parent, child } = await createFamily(isProven)
      const error: unknown = await run(parent).catch((reason: unknown) => reason)
      const rejections = [error, (error as Error).cause]
      expect(rejections).toContainEqual(
        expect.objectContaining({
          outcome: 'not_applied',
          code: 'SCHEMA_MIGRATION_ERROR',
          message: expect.stringContaining('use batch() instead of a transaction'),
        }),
      )
      expect([await columnsOf(parent), await columnsOf(child)]).toEqual(['a', 'a'])
      await parent.batch([B, C])
      expect([await columnsOf(parent), await columnsOf(child)]).toEqual(['abc', 'abc'])
    },
  )

  test.skipIf(!canCreate)(
    `${when}, a batch that fails names its statement, and nothing is applied`,
    async () => {
      const { parent, child } = await createFamily(isProven)
      await expect(parent.batch([B, B])).rejects.toMatchObject({
        code: 'SCHEMA_MIGRATION_ERROR',
        outcome: 'not_applied',
        statementIndex: 1,
        sql: B,
      })
      await expect(parent.execute(`${B} d e f (`)).rejects.toMatchObject({ outcome: 'not_applied' })
      expect([await columnsOf(parent), await columnsOf(child)]).toEqual(['a', 'a'])
    },
  )
}

test.skipIf(!canCreate)(
  'a migration that a child rejects in its dry run is not applied anywhere',
  async () => {
    const { parent, child } = await createFamily()
    await child.batch(['insert into t values (1)', 'insert into t values (1)'])
    await expect(parent.batch([B, 'create unique index u on t (a)'])).rejects.toMatchObject({
      code: 'SCHEMA_MIGRATION_ERROR',
      outcome: 'not_applied',
    })
    expect([await columnsOf(parent), await columnsOf(child)]).toEqual(['a', 'a'])
  },
)

test.skipIf(!canCreate)(
  'a dump can be restored into an empty schema database, and not into one with tables',
  async () => {
    const name = `parent-${(count += 1)}`
    const parent = createClient(await server.createDatabase(name, { isSchema: true }))
    onTestFinished(() => parent.close())
    const dump = `begin; create table t (a, b); insert into t values (1, 'x'); commit;`
    await restore(parent, dump)
    expect(await columnsOf(parent)).toBe('ab')
    await expect(restore(parent, dump)).rejects.toThrow('the database already has tables')
  },
)

test.skipIf(!canCreate).each([
  ['batch', ['rollback', 'create table u (a)']],
  ['batch', ['pragma foreign_keys = off', 'commit', 'create table u (a)', 'select 1']],
  ['batch', ['/* a comment */ end;', 'insert into t values (1)']],
  ['batch', ['commit', 'pragma foreign_keys = off']],
  ['batch', ['pragma foreign_keys = off', 'commit']],
  ['sequence', ['rollback', 'create table u (a)']],
] as const)('a %s of %j, on which libsql-server exits, is an error', async (type, statements) => {
  const { url } = await server.createDatabase(`parent-${(count += 1)}`, { isSchema: true })
  await using db = createClient({ url })
  await db.execute('create table t (a)')
  const request = type === 'batch' ? toBatch(statements) : { type, sql: statements.join('; ') }
  const { status, results } = await pipeline(url, [request, close])
  expect([status, results]).toMatchObject([200, [{ type: 'error' }, {}]])
  expect((await db.execute('select count(*) as n from t')).rows).toEqual([{ n: 0 }])
})

test.skipIf(!canCreate)('a schema database does not exit on stored SQL either', async () => {
  const { url } = await server.createDatabase(`parent-${(count += 1)}`, { isSchema: true })
  await using db = createClient({ url })
  const stored = { sql_id: 1 }
  for (const [sql, request] of [
    [
      'rollback',
      { type: 'batch', batch: { steps: [{ stmt: stored }, { stmt: { sql: 'create table u (a)' } }] } },
    ],
    ['create table u (a)', { type: 'batch', batch: { steps: [{ stmt: { sql: 'end' } }, { stmt: stored }] } }],
    ['pragma foreign_keys = off; commit', { type: 'sequence', ...stored }],
  ] as const) {
    const { status } = await pipeline(url, [{ type: 'store_sql', ...stored, sql }, request, close])
    expect([sql, status < 500]).toEqual([sql, true])
  }
  expect((await db.execute('select 1 as one')).rows).toEqual([{ one: 1 }])
})

test.skipIf(!canCreate).each([
  { type: 'execute', stmt: { sql: 'attach "other" as o' } },
  { type: 'batch', batch: { steps: [{ stmt: { sql: 'attach "other" as o' } }, { stmt: { sql: C } }] } },
  { type: 'sequence', sql: 'select 1; attach "other" as o' },
])('a schema database cannot attach another one: %j', async (request) => {
  const { url } = await server.createDatabase(`parent-${(count += 1)}`, { isSchema: true })
  await using db = createClient({ url })
  await db.execute('create table t (a)')
  const { status, text } = await pipeline(url, [request, close])
  const message = expect.stringContaining('ATTACH is not permitted in migration scripts')
  expect([status, text]).toEqual([200, message])
  expect(await columnsOf(db)).toBe('a')
})

test.skipIf(!canCreate)('a migration keeps its values: -0, large integers, blobs', async () => {
  const { parent, child } = await createFamily()
  const values = [-0, 0.1, 1e300, 9007199254740993n, "it's", new Uint8Array([0, 255]), null]
  await parent.batch([B, ...values.map((value) => ({ sql: 'insert into t (a) values (?)', args: [value] }))])
  const { rows } = await child.execute('select a from t', [], { rowMode: 'array' })
  expect(rows.map(([value]) => value)).toEqual(values)
})

test.skipIf(!canCreate)(
  'a cursor that begins with the end of a transaction is rejected as SQL, not as malformed',
  async () => {
    const name = `parent-${(count += 1)}`
    const { url } = await server.createDatabase(name, { isSchema: true })
    const steps = ['COMMIT', 'CREATE TABLE u(a)'].map((sql) => ({ stmt: { sql } }))
    const body = JSON.stringify({ batch: { steps } })
    const response = await fetch(new URL('v3/cursor', url), { method: 'POST', body })
    expect(await response.text()).toMatch(/the end of a transaction|a cursor cannot change/)
    await using db = createClient({ url })
    expect((await db.execute('select name from sqlite_schema')).rows).toEqual([])
  },
)

const FOREIGN_KEYS_OFF = [
  ...['off', 'OFF', '"off"', "'off'", '[off]', '`off`', 'false', 'no', 'on', 'word'].map(
    (value) => `pragma foreign_keys = ${value}`,
  ),
  ...['0', '00', '-0', '0x0', '1'].map((value) => `pragma foreign_keys = ${value}`),
  'PRAGMA foreign_keys(off)',
  'PRAGMA main.foreign_keys=off',
  '\n\tpragma\tforeign_keys /* d */ = on -- e',
  'pragma foreign_keys',
  'pragma user_version',
  'pragma table_info(t)',
]
const FOREIGN_KEYS_ON = [
  'select 1',
  '-- a comment\npragma foreign_keys = off',
  '/* a comment */ pragma foreign_keys = off',
  'pragma/* a comment */foreign_keys = off',
  '; pragma foreign_keys = off',
  'select 1; pragma foreign_keys = off',
]

test.skipIf(!canCreate)(
  'any PRAGMA at the start of a migration turns foreign keys off, unless something precedes it',
  async () => {
    const { parent, child, send } = await createFamily()
    const starts = [...FOREIGN_KEYS_OFF, ...FOREIGN_KEYS_ON]
    const names = starts.map((_, index) => index)
    await parent.batch(
      names.flatMap((n) => [
        `create table p${n} (id integer primary key)`,
        `create table c${n} (id integer references p${n} on delete cascade)`,
      ]),
    )
    await child.batch(names.flatMap((n) => [`insert into p${n} values (1)`, `insert into c${n} values (1)`]))
    for (const [n, start] of starts.entries()) {
      const rebuild = [`create table q${n} (id)`, `drop table p${n}`, `alter table q${n} rename to p${n}`]
      // both a script and a batch, because the first statement of a script is separated from what precedes it
      if (n % 2 === 0 || start.startsWith('select 1;')) {
        await send({ type: 'sequence', sql: [start, ...rebuild].join('\n;') })
      } else await send(toBatch([start, ...rebuild]))
    }
    const counts = names.map((n) => `(select count(*) from c${n})`)
    const { rows } = await child.execute(`select ${counts.join(', ')}`, [], { rowMode: 'array' })
    expect(starts.filter((_, n) => rows[0]?.[n] === 1)).toEqual(FOREIGN_KEYS_OFF)
  },
)

test.skipIf(!canCreate)('children record the statements of a migration and their kinds', async () => {
  const { child, send } = await createFamily()
  const statements: [sql: string, kind: string, changesRows: boolean, isInsert: boolean][] = [
    ['pragma foreign_keys = off', 'Write', false, false],
    ['pragma table_info(t)', 'Read', false, false],
    ['/* a comment */ insert into t values (1) -- another', 'Write', true, true],
    ['with x as (select 1) insert into t select * from x', 'Write', true, true],
    ['update t set a = 2', 'Write', true, false],
    ['explain select 1', 'Read', false, false],
    ['create table u (a)', 'DDL', false, false],
  ]
  await send(toBatch(statements.map(([sql]) => sql)))
  const { rows } = await child.execute(
    'select migration from sqlite3_libsql_tasks order by job_id desc limit 1',
  )
  const recorded = statements.map(([stmt, kind, is_iud, is_insert]) => ({
    query: { stmt: { stmt, kind, is_iud, is_insert } },
  }))
  expect(JSON.parse(rows[0]?.['migration'] as string)).toMatchObject({ steps: recorded })
})
