// `lastInsertRowid` compared with the bare engine, for generated programs.
import { DatabaseSync } from 'node:sqlite'
import { type Client, readRows } from '@batonsql/core'
import { openStream, type Stream } from '@batonsql/core/adapter'
import { expect, test } from 'vitest'
import { IS_RELEASE, SEED, seeded } from '../support/random.ts'
import { openTestClient } from '../support/test-server.ts'

const PROGRAM_COUNT = IS_RELEASE ? 2_000 : 500

const { db } = await openTestClient()

const SCHEMA = [
  'create table a (id integer primary key, x text unique)',
  'create table b (id integer primary key, x text)',
  'create table log (id integer primary key, x text)',
  'create trigger copies after insert on b begin insert into log values (null, new.x), (null, new.x); end',
  'create table keyed (k text primary key, x) without rowid',
  'create view both_tables as select id, x from a union all select id, x from b',
  `create trigger splits instead of insert on both_tables begin insert or ignore into a values (null, new.x);
    insert into b values (null, new.x); end`,
  'create virtual table words using fts5(x)',
  `create trigger indexes after insert on a begin insert into words (x) values (new.x); update b set x = new.x where id = 1; end`,
  `create trigger ignores before insert on a when new.x = 'ignored' begin select raise(ignore); end`,
]
const TABLES = ['a', 'b', 'log', 'keyed', 'words']

type Kind = 'insert' | 'upsert' | 'keyed' | 'other' | 'failing'
interface Step {
  readonly sql: string
  readonly kind: Kind
  readonly isStreamed: boolean
  /** Whether the statement is undone with a savepoint, where it runs in a transaction. */
  readonly isUndone: boolean
}
/** What a handle of a transaction, a savepoint or a stream can do. */
type Handle = Pick<Stream, 'execute'> & Parameters<typeof readRows>[0]
type Rowids = (bigint | null | undefined)[]

function generateProgram(random: () => number): Step[] {
  const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)] as T
  const id = (): string => pick(['null', '1', '2', '3', '7', '0', '-5', '9007199254740993'])
  const x = (): string => pick(["'p'", "'q'", "'r'", "'do update'", "'ignored'"])
  const steps: (readonly [Kind, () => string])[] = [
    ['insert', () => `insert or replace into a values (${id()}, ${x()})`],
    ['insert', () => `insert or ignore into a values (${id()}, ${x()})`],
    ['insert', () => `insert into b values (null, ${x()}), (null, ${x()})`],
    ['insert', () => `with v as (select ${x()} as x) insert into b (x) select x from v`],
    ['insert', () => `insert into a values (${id()}, ${x()}) on conflict do nothing`],
    ['insert', () => `/* upsert */ replace into a values (${id()}, ${x()}) returning x`],
    ['insert', () => `insert into words (x) values (${x()})`],
    ['insert', () => `insert into both_tables values (${id()}, ${x()})`],
    ['insert', () => `insert into b (x) select x from a where id > ${id()}`],
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
    ['other', () => `insert into b (x) select x from a where false`],
    // keeps the first row
    [
      'failing',
      () => `insert or fail into a values (null, 'kept' || random()), (null, x'00'), (null, x'00')`,
    ],
    ['failing', () => 'insert into b (x) select abs(-9223372036854775807 - 1)'],
  ]
  return Array.from({ length: 2 + Math.floor(random() * 6) }, () => {
    const [kind, text] = pick(steps)
    const sql = text()
    const isStreamed = /^insert|upsert/.test(kind) && !sql.includes('returning') && random() < 0.1
    return { kind, sql, isStreamed, isUndone: random() < 0.1 }
  })
}

/** Returns the rowid that each statement inserted, or null: a rowid of no other table shows whether it changed. */
function runBare(program: readonly Step[], isInTransaction: boolean): (bigint | null)[] {
  using engine = new DatabaseSync(':memory:')
  engine.exec(`${SCHEMA.join(';')}; create table mark (id integer primary key)`)
  const select = engine.prepare('select last_insert_rowid() as rowid')
  select.setReadBigInts(true)
  return program.map(({ sql, isUndone }, index) => {
    const mark = -1_000 - index
    engine.exec(`insert into mark values (${mark}); savepoint step`)
    try {
      engine.exec(sql)
    } catch {
      // a failing statement
    }
    engine.exec(isUndone && isInTransaction ? 'rollback to step; release step' : 'release step')
    const rowid = select.get()?.['rowid'] as bigint
    return rowid === BigInt(mark) ? null : rowid
  })
}

async function runStep(handle: Handle, { sql, kind, isStreamed }: Step): Promise<bigint | null | undefined> {
  // a loop over rows returns no rowid, but the next upsert must know it
  if (isStreamed) for await (const _ of readRows(handle, `${sql} returning 1`)) continue
  else if (kind === 'failing') await expect(handle.execute(sql)).rejects.toThrow('SQLite error')
  else return (await handle.execute(sql)).lastInsertRowid
  return undefined
}

async function runOnStream(client: Client, program: readonly Step[]): Promise<Rowids> {
  const stream = openStream(client)
  const rowids: Rowids = []
  try {
    for (const step of program) rowids.push(await runStep(stream, step))
    return rowids
  } finally {
    await stream.close()
  }
}

const runInTransaction = (client: Client, program: readonly Step[]): Promise<Rowids> =>
  client.transaction(async (tx) => {
    const rowids: Rowids = []
    const undo = new Error('undone')
    for (const step of program)
      if (step.isUndone)
        await tx
          .savepoint(async (savepoint) => {
            rowids.push(await runStep(savepoint, step))
            throw undo
          })
          .catch((error: unknown) => expect(error).toBe(undo))
      else rowids.push(await runStep(tx, step))
    return rowids
  })

const runInBatch = async (client: Client, program: readonly Step[]): Promise<Rowids> =>
  (await client.batch(program.map(({ sql }) => sql))).map(({ lastInsertRowid }) => lastInsertRowid)

test(`${PROGRAM_COUNT} programs report the rowids of the engine, or none (TEST_SEED=${SEED})`, {
  timeout: 300_000,
}, async () => {
  const random = seeded(SEED)
  await db.batch(SCHEMA)
  const clear = TABLES.map((table) => `delete from ${table}`)
  const runs = [runInBatch, runInTransaction, runOnStream, runInBatch]
  let upsertCount = 0
  let unknownCount = 0
  for (let round = 0; round < PROGRAM_COUNT; round++) {
    const run = runs[round % runs.length] as typeof runInBatch
    const program = generateProgram(random).filter(({ kind }) => run !== runInBatch || kind !== 'failing')
    const expected = runBare(program, run === runInTransaction)
    await db.batch(clear)
    const actual = await run(db, program)
    for (const [index, { kind, sql }] of program.entries()) {
      const rowid = actual[index]
      const message = `round ${round}, statement ${index}: ${sql}`
      if (rowid === undefined) continue
      // unknown, because a connection that has inserted nothing also reports 0
      const mayBeUnknown = kind === 'upsert' || expected[index] === 0n
      if (kind !== 'keyed' && (rowid !== null || !mayBeUnknown)) expect(rowid, message).toBe(expected[index])
      if (kind === 'upsert' && expected[index] !== null) {
        upsertCount += 1
        if (rowid === null) unknownCount += 1
      }
    }
  }
  // most are known
  expect(unknownCount).toBeLessThan(upsertCount / 2)
})
