// `lastInsertRowid` compared with the bare engine, for generated programs.
import { DatabaseSync } from 'node:sqlite'
import { type Client, createClient, openStream, readRows } from '@batonsql/core'
import { afterAll, expect, test } from 'vitest'
import { seeded } from '../support/random.ts'
import { openTestServer } from '../support/test-server.ts'

const PROGRAM_COUNT = 2_000
const SEED = Number(process.env['ROWID_SEED'] ?? 20_261_128)

const server = await openTestServer()
const db = createClient((await server.createDatabase()).config)
afterAll(() => db.close())

const SCHEMA = [
  'create table a (id integer primary key, x text unique)',
  'create table b (id integer primary key, x text)',
  'create table log (id integer primary key, x text)',
  'create trigger copies after insert on b begin insert into log values (null, new.x), (null, new.x); end',
  'create table keyed (k text primary key, x) without rowid',
]

type Kind = 'insert' | 'upsert' | 'keyed' | 'other'
interface Step {
  readonly sql: string
  readonly kind: Kind
  readonly isStreamed: boolean
}

function generateProgram(random: () => number): Step[] {
  const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)] as T
  const id = (): string => pick(['null', '1', '2', '3', '7'])
  const x = (): string => pick(["'p'", "'q'", "'r'", "'do update'"])
  const steps: (readonly [Kind, () => string])[] = [
    ['insert', () => `insert or replace into a values (${id()}, ${x()})`],
    ['insert', () => `insert or ignore into a values (${id()}, ${x()})`],
    ['insert', () => `insert into b values (null, ${x()}), (null, ${x()})`],
    ['insert', () => `with v as (select ${x()} as x) insert into b (x) select x from v`],
    ['insert', () => `insert into a values (${id()}, ${x()}) on conflict do nothing`],
    ['upsert', () => `insert into a values (${id()}, ${x()}) on conflict do update set x = 'u' || random()`],
    [
      'upsert',
      () => `insert into a values (null, ${x()}), (null, 'new') on conflict (x) do /* */ update set id = id`,
    ],
    ['keyed', () => `insert or replace into keyed values (${x()}, 1)`],
    ['other', () => `update a set x = x || '!' where id = ${id()}`],
    ['other', () => `delete from b where id = ${id()}`],
    ['other', () => 'select max(id) from a'],
    ['other', () => "with v as (select 'insert into') update b set x = 1"],
  ]
  return Array.from({ length: 2 + Math.floor(random() * 6) }, () => {
    const [kind, text] = pick(steps)
    return { kind, sql: text(), isStreamed: kind !== 'other' && random() < 0.1 }
  })
}

/** Returns the rowid that each statement inserted, or null: a rowid of no other table shows whether it changed. */
function runBare(program: readonly Step[]): (bigint | null)[] {
  using engine = new DatabaseSync(':memory:')
  engine.exec(`${SCHEMA.join(';')}; create table mark (id integer primary key)`)
  return program.map(({ sql }, index) => {
    const mark = -1_000 - index
    engine.exec(`insert into mark values (${mark}); ${sql}`)
    const select = engine.prepare('select last_insert_rowid() as rowid')
    select.setReadBigInts(true)
    const rowid = select.get()?.['rowid'] as bigint
    return rowid === BigInt(mark) ? null : rowid
  })
}

async function runOnStream(client: Client, program: readonly Step[]): Promise<(bigint | null | undefined)[]> {
  const stream = openStream(client)
  const rowids: (bigint | null | undefined)[] = []
  try {
    for (const { sql, isStreamed } of program) {
      // a loop over rows returns no rowid, but the next upsert must know it
      if (isStreamed) for await (const _ of readRows(stream, `${sql} returning 1`)) continue
      rowids.push(isStreamed ? undefined : (await stream.execute(sql)).lastInsertRowid)
    }
    return rowids
  } finally {
    await stream.close()
  }
}

const runInBatch = async (client: Client, program: readonly Step[]): Promise<(bigint | null)[]> =>
  (await client.batch(program.map(({ sql }) => sql))).map(({ lastInsertRowid }) => lastInsertRowid)

test(`${PROGRAM_COUNT} programs report the rowids of the engine, or none (seed ${SEED})`, {
  timeout: 300_000,
}, async () => {
  const random = seeded(SEED)
  await db.batch(SCHEMA)
  const clear = ['a', 'b', 'log', 'keyed'].map((table) => `delete from ${table}`)
  let upsertCount = 0
  let unknownCount = 0
  for (let round = 0; round < PROGRAM_COUNT; round++) {
    const program = generateProgram(random)
    const expected = runBare(program)
    await db.batch(clear)
    const isBatch = round % 4 !== 0
    const actual = await (isBatch ? runInBatch : runOnStream)(db, program)
    for (const [index, { kind, sql }] of program.entries()) {
      const rowid = actual[index]
      const message = `round ${round}, statement ${index}: ${sql}`
      if (rowid === undefined) continue
      if (kind === 'insert' || kind === 'other') expect(rowid, message).toBe(expected[index])
      // unknown, rather than a guess; of the server's answers, those for tables WITHOUT ROWID say nothing
      if (kind === 'upsert' && rowid !== null) expect(rowid, message).toBe(expected[index])
      if (kind === 'upsert' && expected[index] !== null) {
        upsertCount += 1
        if (rowid === null) unknownCount += 1
      }
    }
  }
  // most are known
  expect(unknownCount).toBeLessThan(upsertCount / 2)
})
