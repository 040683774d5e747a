// Nothing that a client without write access sends holds the write lock, which a writer would have to wait for.
import { createClient } from '@batonsql/core'
import { describe, expect, inject, test } from 'vitest'
import { Harness } from './platform-harness.ts'

const BEGINNINGS = [
  'begin immediate',
  'BEGIN /* now */ EXCLUSIVE TRANSACTION',
  '-- a\n begin--\n immediate',
  ';begin immediate;',
  'begin concurrent',
  '\ufeffbegin immediate',
  'begin; insert into t values (2)',
  'savepoint a; insert into t values (2)',
  'begin; drop table t',
  'begin; explain drop index v_e',
  'begin; update t set a = 1 where false returning a',
  'begin; pragma user_version = 3',
  'begin; select optimize(f) from f',
] as const

interface Reader {
  readonly name: string
  token(harness: Harness): Promise<string>
  readonly isReplica?: boolean
  readonly backend?: 'embedded' | 'sqld'
}

const createReadOnlyToken = (harness: Harness) => harness.tokenFor('app', '?authorization=read-only')

const READERS: readonly Reader[] = [
  { name: 'a read-only token', token: createReadOnlyToken },
  { name: 'a read-only token at a replica', token: createReadOnlyToken, isReplica: true, backend: 'sqld' },
  {
    name: 'a token that may read tables',
    token: (harness) =>
      harness.tokenFor('app', '', { fine_grained_permissions: [{ t: null, a: ['data_read'] }] }),
    backend: 'embedded',
  },
]
const isTested = ({ backend }: Reader): boolean => backend === undefined || backend === inject('target')

/** The ways to send statements on a stream that stays open. */
function createBodies(sql: string): readonly (readonly [path: string, body: object])[] {
  const steps = sql.split(/(?<=\w); /).map((part) => ({ stmt: { sql: part } }))
  const stored = [
    { type: 'store_sql', sql_id: 1, sql },
    { type: 'sequence', sql_id: 1 },
  ]
  return [
    ['/v3/pipeline', { requests: steps.map(({ stmt }) => ({ type: 'execute', stmt })) }],
    ['/v3/pipeline', { requests: [{ type: 'batch', batch: { steps } }] }],
    ['/v3/pipeline', { requests: [{ type: 'sequence', sql }] }],
    ['/v3/pipeline', { requests: stored }],
    ['/v3/cursor', { batch: { steps } }],
  ]
}

describe.each(READERS.filter(isTested))('$name', ({ token: createToken, isReplica }) => {
  test('no writer takes a lock from its streams', async () => {
    await using harness = await Harness.start()
    const { host } = await harness.createDatabase('app')
    await using db = createClient({ url: `http://${host}`, authToken: await harness.tokenFor('app') })
    await db.batch([
      'create table t (a)',
      'create table v (e F32_BLOB(2))',
      'create index v_e on v(libsql_vector_idx(e))',
      'create virtual table f using fts3(x)',
    ])
    if (isReplica === true) await harness.requestOk('POST', 'groups/default/locations/fra')
    const path = 'databases/app/instances'
    const { instances } = await harness.requestOk('GET', path)
    const readerHost: string = isReplica === true ? instances[1].hostname : host
    const headers = { authorization: `Bearer ${await createToken(harness)}` }
    const send = async (path: string, body: object): Promise<string> => {
      const response = await fetch(`http://${readerHost}${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      }).catch(() => null)
      return (await response?.text().catch(() => '')) ?? ''
    }
    const open: { readonly sql: string; readonly baton: string }[] = []
    for (const sql of BEGINNINGS) {
      for (const [path, body] of createBodies(sql)) {
        const baton = /^\{"baton":"([^"]+)"/.exec(await send(path, body))?.[1]
        if (baton !== undefined) open.push({ sql, baton })
      }
    }
    // a writer takes the lock from a transaction that holds it, which then fails
    await db.execute('insert into t values (1)')
    let transactions = 0
    for (const { sql, baton } of open) {
      const text = await send('/v3/pipeline', {
        baton,
        requests: [
          { type: 'get_autocommit' },
          { type: 'execute', stmt: { sql: 'select 1' } },
          { type: 'close' },
        ],
      })
      expect([sql, text]).not.toEqual([sql, expect.stringMatching(/time/i)])
      if (text.includes('"is_autocommit":false')) transactions += 1
    }
    expect(transactions).toBeGreaterThan(10)
  })
})
