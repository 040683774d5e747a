import { createClient } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import { startLocalServer } from '@batonsql/local-server'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { type Comparison, compareStates } from './compare-states.ts'
import { measureDatabase } from './measure-database.ts'

const server = await startLocalServer()
afterAll(() => server.close())
let databases = 0
const { signal } = new AbortController()

const TABLES = [
  'create table person (id integer primary key, name text not null, age text)',
  'create table pet (id integer primary key, name text, owner integer references person (id) on delete cascade)',
  "insert into person values (1, 'Ada', '36'), (2, 'Bob', null)",
  "insert into pet values (1, 'Rex', 1), (2, 'Tom', 1), (3, 'Kit', 2)",
]

type Texts = Omit<Comparison, 'losses'> & { readonly losses: readonly string[] }

/** Creates a database, runs statements in it, and compares it before and after others. */
async function compare(before: readonly string[], statements: readonly string[]): Promise<Texts> {
  databases += 1
  const name = `d${databases}`
  const { url } = await server.createDatabase(name)
  const db = createClient({ url })
  try {
    await db.batch([...before], { foreignKeys: 'off' })
    const state = await measureDatabase(db, signal)
    const stream = openStream(db)
    for (const sql of statements) await stream.execute(sql)
    await stream.close()
    const comparison = compareStates(state, await measureDatabase(db, signal))
    return { ...comparison, losses: comparison.losses.map(({ text }) => text) }
  } finally {
    await db.close()
    await server.deleteDatabase(name)
  }
}

test.each([
  [['drop table pet'], ['pet: dropped with 3 rows']],
  [['delete from pet where id = 1'], ['pet: 3 -> 2 rows']],
  [['alter table person drop column age'], ['person.age: dropped with 1 value']],
  [['update pet set name = null where id < 3'], ['pet.name: 2 values became NULL']],
  [["update pet set name = '' where id < 3"], ['pet.name: 2 values became empty']],
  [["update pet set name = x'' where id = 1"], ['pet.name: 1 value became empty']],
  [["update pet set name = iif(id = 1, '', null) where id < 3"], ['pet.name: 2 values became NULL or empty']],
])('%j is a loss', async (statements, losses) => {
  expect((await compare(TABLES, statements)).losses).toEqual(losses)
})

test.each<[readonly string[], Partial<Texts>]>([
  [['alter table person rename to human'], { renamed: ['table person -> human'] }],
  [
    [
      "create table copy as select id, name || '!' as NAME, owner from pet",
      'drop table pet',
      'alter table copy rename to PET',
    ],
    { renamed: ['table pet -> PET', 'column pet.name -> NAME'] },
  ],
  [
    ['alter table person rename column age to years'],
    { renamed: ['column person.age -> years'], changed: ['table person'] },
  ],
  [
    [
      'alter table person rename to human',
      'alter table human rename column age to years',
      'alter table human rename column name to called',
    ],
    { renamed: ['table person -> human', 'column person.name -> called', 'column person.age -> years'] },
  ],
  [['alter table pet add column kind text'], { changed: ['table pet'] }],
  [
    ['create index by_name on pet (name)', 'create view owner as select owner from pet'],
    { created: ['index by_name', 'view owner'] },
  ],
  [["update pet set name = 'x'"], { changed: [], types: [], values: ['pet.name'] }],
  [
    ["update person set age = '' where age is null"],
    { types: ['person.age: 1 null, 1 text -> 2 text'], values: [] },
  ],
  [["update pet set name = 'Rax' where id = 1"], { values: ['pet.name'] }],
  [["insert into pet values (4, 'New', null)"], { changed: [], values: [] }],
])('%j loses nothing', async (statements, comparison) => {
  expect(await compare(TABLES, statements)).toMatchObject({ losses: [], ...comparison })
})

test.each([
  ['123456', '193456'],
  ['123456', '123956'],
  ['0.125', '0.25'],
  ['9e999', '-9e999'],
  ...[0, 1, 2, 3, 4].map((index) => ["'abcde'", `'${'abcde'.slice(0, index)}x${'abcde'.slice(index + 1)}'`]),
  ["x'0102030405'", "x'0102030605'"],
])('a change from %s to %s is found, beside infinities', async (from, to) => {
  const before = [
    'create table measure (id integer primary key, amount, limits)',
    `insert into measure values (1, ${from}, 9e999), (2, 'other', -9e999)`,
  ]
  expect((await compare(before, [`update measure set amount = ${to} where id = 1`])).values).toEqual([
    'measure.amount',
  ])
})

test('a table of the user may have a name that begins like those of the server', async () => {
  const tables = ['create table libsql_notes (a)', 'insert into libsql_notes values (1)']
  const { losses } = await compare(tables, ['drop table libsql_notes'])
  expect(losses).toEqual(['libsql_notes: dropped with 1 row'])
})

test('a text that begins with U+0000 is not empty', async () => {
  const tables = ['create table t (a)', "insert into t values (x'0061')"]
  const texts = await compare(tables, ['update t set a = cast(a as text)'])
  expect(texts).toMatchObject({ losses: [], types: ['t.a: 1 blob -> 1 text'] })
  const losses = ['update t set a = cast(a as text)', "update t set a = ''"]
  expect((await compare(tables, losses)).losses).toEqual(['t.a: 1 value became empty'])
})

test('an empty text that becomes NULL is no loss', async () => {
  const empty = [...TABLES, "update pet set name = ''"]
  expect((await compare(empty, ['update pet set name = null'])).losses).toEqual([])
})

test('a column with other values is not a renamed one', async () => {
  const comparison = await compare(TABLES, [
    "alter table pet add column title text not null default ''",
    'alter table pet drop column name',
  ])
  expect(comparison).toMatchObject({ losses: ['pet.name: dropped with 3 values'], renamed: [] })
})

test('the rows of virtual tables count, and the tables behind an index do not', async () => {
  const before = [
    'create virtual table note using fts5 (body)',
    "insert into note values ('one'), ('two')",
    "create virtual table word using fts5vocab ('note', 'row')",
    'create table point (id integer primary key, at f32_blob(2))',
    "insert into point values (1, vector('[1,2]'))",
    'create index near on point (libsql_vector_idx(at))',
  ]
  expect((await compare(before, ['delete from note', 'drop index near'])).losses).toEqual([
    'note: 2 -> 0 rows',
  ])
  expect(await compare(before, ['drop table word', 'drop table note'])).toMatchObject({
    losses: ['note: dropped with 2 rows'],
    dropped: ['table note', 'table word'],
  })
})

test('a table whose name is that of an index with _shadow is a table like others', async () => {
  const before = [
    ...TABLES,
    'create index by_owner on pet (owner)',
    'create table by_owner_shadow (a)',
    'insert into by_owner_shadow values (1)',
  ]
  expect((await compare(before, ['drop table by_owner_shadow'])).losses).toEqual([
    'by_owner_shadow: dropped with 1 row',
  ])
})

test('a generated column has no values of its own', async () => {
  const before = [
    "create table human (a, b as (a || 'b') virtual, c as (a || 'c') stored)",
    "insert into human (a) values ('a')",
  ]
  const statements = ['alter table human drop column b', 'alter table human rename to person_2']
  expect(await compare(before, statements)).toMatchObject({
    losses: [],
    renamed: ['table human -> person_2'],
  })
})

test('a table can have more columns than one result', async () => {
  const columns = Array.from({ length: 650 }, (_, index) => `k${index}`)
  const before = [`create table human (${columns.join()})`, 'insert into human (k0, k649) values (1, 2)']
  const statements = ['alter table human drop column k649', 'alter table human drop column k3']
  expect((await compare(before, statements)).losses).toEqual(['human.k649: dropped with 1 value'])
})

test('rows that refer to nothing are damage', async () => {
  const statements = ['pragma foreign_keys = off', 'update pet set owner = 77']
  expect((await compare(TABLES, statements)).damage).toEqual(['3 rows now refer to rows that do not exist'])
})

test('a reference to a column that is not unique is damage, unless it was there before', async () => {
  const script = ['create table human as select * from person', 'create table vet (h references human (id))']
  expect((await compare(TABLES, script)).damage).toEqual(['foreign key mismatch - "vet" referencing "human"'])
  expect((await compare([...TABLES, ...script], ['create table t (a)'])).damage).toEqual([])
})

test('to repair a foreign key that could not be checked is no damage, although rows refer to nothing', async () => {
  const before = [
    'create table human (id)',
    'create table vet (h references human (id))',
    'insert into vet values (5)',
  ]
  expect((await compare(before, ['create unique index human_id on human (id)'])).damage).toEqual([])
})

/** A change of the table `old`, and whether it loses data of its column `c`, which has this many values that are not empty. */
const CHANGES: Readonly<
  Record<string, { sqls(c: string, columns: string[]): string[]; loses(values: number): boolean }>
> = {
  'rename the table': { sqls: () => ['alter table old rename to new'], loses: () => false },
  'rename a column': { sqls: (c) => [`alter table old rename column ${c} to new`], loses: () => false },
  'add a column': { sqls: () => ['alter table old add column new default 5'], loses: () => false },
  'copy and rename': {
    sqls: (c) => [`create table new as select * from old order by ${c} desc`, 'drop table old'],
    loses: () => false,
  },
  'rebuild with columns in another order': {
    sqls: (_, columns) => [
      `create table new as select 7 as extra, ${columns.toReversed().join()} from old`,
      'drop table old',
      'alter table new rename to old',
    ],
    loses: () => false,
  },
  'drop the table': { sqls: () => ['drop table old'], loses: () => true },
  'delete a row': {
    sqls: (c) => [`create table new as select * from old order by ${c} limit -1 offset 1`, 'drop table old'],
    loses: () => true,
  },
  'remove values': { sqls: (c) => [`update old set ${c} = null`], loses: (values) => values > 0 },
  'empty values': { sqls: (c) => [`update old set ${c} = ''`], loses: (values) => values > 0 },
}
// two numbers near the largest one are left out: their sum depends on their order
const SOME_VALUES =
  `null, '', x'', 0, -1, 9223372036854775807, 0.1, -0.0, 1e300, 9e999, -9e999, '12', '1e999', 'NaN', 'a', 'abc',
  'é', '😀', char(0), char(0,97), x'00', x'ff', cast(x'ff61' as text), zeroblob(20), printf('%.*c',3000,'x')`.split(
    /,\s+/,
  )
const SOME_NAMES = `a, "c d", "e""f", __proto__, "é", "unicode", "null", "x.y", "?", "g'h"`.split(', ')

test('a loss is reported, and a change that keeps all values is none, whatever the values and names are', async () => {
  const aTable = fc.record({
    columns: fc.uniqueArray(fc.constantFrom(...SOME_NAMES), { minLength: 1, maxLength: 4 }),
    type: fc.constantFrom('', 'integer', 'text', 'real', 'blob'),
    rows: fc.array(fc.array(fc.constantFrom(...SOME_VALUES), { minLength: 4, maxLength: 4 }), {
      minLength: 1,
      maxLength: 5,
    }),
  })
  await fc.assert(
    fc.asyncProperty(aTable, fc.constantFrom(...Object.keys(CHANGES)), async (table, title) => {
      const { columns, type, rows } = table
      const { sqls, loses } = CHANGES[title] as (typeof CHANGES)[string]
      const [c] = columns as [string]
      const before = [
        `create table old (${columns.map((name) => `${name} ${type}`).join()})`,
        ...rows.map((row) => `insert into old values (${row.slice(0, columns.length).join()})`),
      ]
      const values = rows.filter(([value]) => !/^(null|''|x'')$/.test(value as string)).length
      const { losses } = await compare(before, sqls(c, columns))
      expect([title, losses.length > 0]).toEqual([title, loses(values)])
    }),
    { numRuns: 100 },
  )
})

test('a virtual table, of which only the rows are counted, is not renamed to an ordinary one', async () => {
  const before = ['create virtual table note using fts5(body)', "insert into note values ('a'), ('b')"]
  const ordinary = ['create table log (body)', 'insert into log values (1), (2)', 'drop table note']
  expect(await compare(before, ordinary)).toMatchObject({
    renamed: [],
    losses: ['note: dropped with 2 rows'],
  })
  const virtual = [
    'create virtual table memo using fts5(body)',
    'insert into memo select * from note',
    'drop table note',
  ]
  expect(await compare(before, virtual)).toMatchObject({ renamed: ['table note -> memo'], losses: [] })
})

test.each([
  'table_list',
  'table_xinfo',
  'octet_length',
  'from \\"word\\"',
  'foreign_key_check',
  'integrity_check',
])('a measurement ends when it is aborted during %s', async (text) => {
  const [controller, until] = [new AbortController(), new Promise<never>(() => {})]
  const { url } = await server.createDatabase(`aborted-${databases++}`)
  await using db = createClient({
    url,
    fetch: (target, init) => {
      if (!init.body?.includes(text)) return fetch(target, init)
      controller.abort()
      return until
    },
  })
  await db.batch(['create table t (a)', 'create virtual table word using fts5(a)'])
  await expect(measureDatabase(db, controller.signal)).rejects.toMatchObject({ name: 'AbortError' })
})
