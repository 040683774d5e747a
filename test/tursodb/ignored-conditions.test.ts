import { type Client, createClient, readRows } from '@batonsql/core'
import { expect, test } from 'vitest'
import { requireTursodb, startTursodb } from '../support/tursodb.ts'

requireTursodb()

// The engine's own server ignores the conditions of cursors; behind some proxies, those of pipelines are missing too.

const CALLS: Record<string, (db: Client) => Promise<unknown>> = {
  'a batch': (db) => db.batch(['insert into t values (1)', 'insert into t values (2)']),
  'a batch whose first statement ends the transaction': (db) =>
    db.batch(['insert or rollback into t values (0)', 'insert into t values (1)']),
  'a read-only batch': (db) => db.batch(['select 1'], { mode: 'readonly' }),
  'a transaction': (db) => db.transaction((tx) => tx.execute('insert into t values (1)')),
  'rows of a transaction': (db) =>
    db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)')
      for await (const _ of readRows(tx, 'insert into t values (2) returning a'));
    }),
}

test.each(
  Object.entries(CALLS).flatMap(([name, call]) =>
    [/pipeline|cursor/, /cursor/].map((path) => [name, path, call] as const),
  ),
)('%s, if %s ignores conditions: nothing is kept', async (name, path, call) => {
  const server = await startTursodb()
  await using direct = createClient({ url: server.url })
  await direct.batch(['create table t (a unique)', 'insert into t values (0)'])
  const fetch = (url: string, init: { body: string }): Promise<Response> => {
    const withoutConditions = (key: string, value: unknown): unknown =>
      key === 'condition' ? undefined : value
    const body = path.test(url) ? JSON.stringify(JSON.parse(init.body, withoutConditions)) : init.body
    return globalThis.fetch(url, { ...init, body })
  }
  await using db = createClient({ url: server.url, fetch: fetch as never })
  const isRecognized = path.test('pipeline') || name === 'rows of a transaction'
  const error: unknown = await call(db).catch((reason: unknown) => reason)
  if (isRecognized) {
    expect(error).toMatchObject({ code: 'PROTOCOL', outcome: 'not_applied' })
    expect((await direct.execute('select a from t')).rows).toEqual([{ a: 0 }])
  } else expect(error).not.toMatchObject({ code: 'PROTOCOL' })
})
