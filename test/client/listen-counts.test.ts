import { createClient, listen } from '@batonsql/core'
import { splitStatements } from '@batonsql/core/adapter'
import { expect, inject, test } from 'vitest'
import { close, execute, pipeline } from '../server/wire.ts'
import { openTestServer, type TestDatabase } from '../support/test-server.ts'

// The changes that each server reports if part of a committed transaction was undone.

const server = await openTestServer()

/** Number of rows in the last insert. When a listener receives this number, all earlier changes have been reported. */
const LAST_COUNT = 50

/** Runs the statements of a script on one stream. @returns the number of inserted rows reported for each table */
async function countInserts({ url, config }: TestDatabase, script: string): Promise<Record<string, number>> {
  await using db = createClient(config)
  await db.batch(['create table t (a)', 'create table u (a unique)', 'insert into u values (1)'])
  const listeners = ['t', 'u'].map((table) => ({ table, events: listen(db, { table }) }))
  for (const { events } of listeners) expect((await events.next()).value).toEqual({ type: 'ready' })
  const counts = listeners.map(async ({ table, events }) => {
    const insertCounts: number[] = []
    for await (const event of events) {
      if (event.type !== 'changes') throw new Error(event.type)
      if (event.insert === LAST_COUNT) break
      expect(event).toEqual({ type: 'changes', insert: event.insert, update: 0, delete: 0, unknown: 0 })
      insertCounts.push(event.insert)
    }
    return [table, insertCounts] as const
  })
  const statements = splitStatements(script).map(({ sql }) => execute(sql))
  await pipeline(url, [...statements, close], { ...(config.authToken && { token: config.authToken }) })
  const lastValues = `(${Array.from({ length: LAST_COUNT }, (_, row) => row + 100).join('), (')})`
  const lastInserts = ['t', 'u'].map((table) => `insert into ${table} values ${lastValues}`)
  await db.batch(['drop trigger if exists tr', ...lastInserts])
  const entries = (await Promise.all(counts)).filter(([, insertCounts]) => insertCounts.length > 0)
  return Object.fromEntries(
    entries.map(([table, insertCounts]) => {
      expect(insertCounts).toHaveLength(1)
      return [table, insertCounts[0] as number]
    }),
  )
}

/** Triggers that insert into `t`, and then reject the insert into `u`. */
const failingTrigger = (how: string): string =>
  `create trigger tr before insert on u begin insert into t values (new.a); select raise(${how}, 'no'); end`

test.each<[string, string, Record<string, number>]>([
  [
    'a statement that keeps the rows before the one that fails',
    'begin; insert or fail into u values (2), (3), (1), (4); commit',
    { u: 2 },
  ],
  [
    'a trigger that fails, and keeps what it has inserted',
    `${failingTrigger('fail')}; begin; insert into u values (8); commit`,
    { t: 1 },
  ],
  [
    'a statement that skips the row that fails',
    'begin; insert or ignore into u values (2), (3), (1), (4); commit',
    { u: 3 },
  ],
  [
    'a statement that ends the transaction',
    'begin; insert into t values (1); insert or rollback into u values (2), (1)',
    {},
  ],
  [
    'a savepoint that is released',
    'begin; insert into t values (1); savepoint s; insert into t values (2); release s; commit',
    { t: 2 },
  ],
])('only committed changes are reported: %s', async (_, script, expected) => {
  expect(await countInserts(await server.createDatabase(), script)).toEqual(expected)
})

/** The last value is the count that libsql-server reports, which includes undone changes. */
test.each<[string, string, Record<string, number>, Record<string, number>]>([
  [
    'a savepoint',
    `begin; insert into t values (1); savepoint s; insert into t values (2), (3); rollback to s; commit`,
    { t: 1 },
    { t: 3 },
  ],
  [
    'the inner of two savepoints with the same name',
    `begin; savepoint a; insert into t values (1); savepoint A; insert into t values (2); rollback to a;
     insert into t values (3); release a; release A; commit`,
    { t: 2 },
    { t: 3 },
  ],
  [
    'a savepoint that contains a released one',
    `begin; insert into t values (0); savepoint a; insert into t values (1); savepoint b;
     insert into t values (2); release b; rollback to a; insert into t values (3); commit`,
    { t: 2 },
    { t: 4 },
  ],
  [
    'a savepoint that began the transaction',
    `savepoint a; insert into t values (1); rollback to a; insert into t values (2); savepoint b;
     insert into t values (3); release a`,
    { t: 2 },
    { t: 3 },
  ],
  [
    'everything in the transaction',
    'begin; savepoint a; insert into t values (1); rollback to a; commit',
    {},
    { t: 1 },
  ],
  [
    'a statement that fails after its first rows',
    'begin; insert into t values (1); insert into u values (2), (3), (1); commit',
    { t: 1 },
    { t: 1, u: 2 },
  ],
  ['the only statement of a transaction', 'begin; insert into u values (2), (3), (1); commit', {}, { u: 2 }],
  [
    'a statement whose trigger fails',
    `${failingTrigger('abort')}; begin; insert into u values (8); commit`,
    {},
    { t: 1 },
  ],
])('only libsql-server reports changes that were undone: %s', async (_, script, expected, onSqld) => {
  const isEmbedded = inject('target') === 'embedded'
  const counts = await countInserts(await server.createDatabase(), script)
  expect(counts).toEqual(isEmbedded ? expected : onSqld)
})
