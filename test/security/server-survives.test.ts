import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close, execute, type WireRequest } from '../server/wire.ts'
import { IS_RELEASE, SEED, seeded } from '../support/random.ts'
import { AttackedServer, BACKENDS, batonOf } from './attacked-server.ts'
import { CALL_SCHEMA, generateBoundCall, generateCall } from './generated-calls.ts'

/**
 * Statements that crashed a server with any token, even a read-only one. The statements of a list are sent in one request.
 */
const CRASHING_READS: readonly (readonly string[])[] = [
  ["select replicate('abc', 2863311531)"],
  ["select padl('a', 4294967295)", "select padr('a', 4294967295)", "select padc('é€😀', 4294967295)"],
  ["select 1 from (select 1) join (select 2) on 1 is distinct from replicate('abc', 2863311531)"],
  ["select rightstr('abc', 2863311531)", "select leftstr('abc', 4294967295)"],
  ["select strfilter(cast(x'fffefd' as text), cast(x'ff' as text))"],
  ["select regexp(replace(hex(zeroblob(25000)), '0', '('), 'a')"],
  ["select 'a' regexp replace(hex(zeroblob(25000)), '0', '(')"],
  ["select 'a' not regexp replace(hex(zeroblob(25000)), '0', '(')"],
  ["select 1. regexp replace(hex(zeroblob(25000)), '0', '(')"],
  ["select replace(hex(zeroblob(24000)), '00', 'a') like replace(hex(zeroblob(24000)), '00', '%a')"],
  ["select replace(hex(zeroblob(24000)), '00', 'a') glob replace(hex(zeroblob(24000)), '00', '*a')"],
  ["select json_set('{}', '$' || replace(hex(zeroblob(10000)), '00', '.a'), 1)"],
  [`select ${Array(50_000).fill('1').join('+')}`],
]

/** Statements that crashed a server with a token that may write. */
const CRASHING_WRITES: readonly (readonly string[])[] = [
  ["create view broken as select replicate('abc', 2863311531)", 'select * from broken'],
  ['create table d(a, b default (replicate(1, 2863311531)))', 'insert into d(a) values (1)'],
  ['create table g(a, b as (replicate(a, 2863311531)))', 'insert into g(a) values (1)', 'select b from g'],
  [
    'create table v(id integer primary key, e F32_BLOB(3))',
    'create index vi on v(libsql_vector_idx(e))',
    "insert into v(e) values (vector('[1,2,3]')), (vector('[4,5,6]'))",
    'update vi_shadow set data = randomblob(length(data))',
    "select * from vector_top_k('vi', '[1,2,3]', 2)",
    "insert into v(e) values (vector('[1,1,1]'))",
  ],
]

const createAttachStatements = (id: string): readonly (readonly string[])[] => {
  const attach = `attach "${id}" as x`
  return [
    [attach, 'insert into main.s select * from x.s'],
    [attach, 'insert into main.s select a from x.s where true'],
    [attach, 'update main.s set a = (select max(a) from x.s)'],
    [attach, 'with q as (select 1) delete from s where a in (select a from x.s)'],
    [attach, 'create table u as select * from x.s'],
    [attach, 'begin immediate', 'select * from x.s'],
    ['begin immediate', attach, 'commit'],
  ]
}

describe.each(BACKENDS)('the server survives, with open transactions: %s', (backend) => {
  let attacked: AttackedServer
  let baton: string | null

  beforeAll(async () => {
    attacked = await AttackedServer.start({ backend, auth: false })
    for (const name of ['app', 'other']) {
      await attacked.server.updateDatabase(name, { allowAttach: true })
      await sendRequest(name, [execute('create table s(a)'), execute('insert into s values (1)'), close])
    }
    const transaction = await sendRequest('other', [execute('begin'), execute('insert into s values (2)')])
    baton = (JSON.parse(transaction) as { baton: string }).baton
  })
  afterAll(() => attacked[Symbol.asyncDispose]())

  async function sendRequest(
    name: string,
    requests: readonly WireRequest[],
    streamBaton: string | null = null,
  ): Promise<string> {
    return (await attacked.post(`/${name}/v3/pipeline`, { baton: streamBaton, requests })).text
  }

  test('functions, vectors and ATTACH', async () => {
    for (const statements of [
      ...CRASHING_READS,
      ...CRASHING_WRITES,
      ...createAttachStatements(attacked.server.databaseId('other')),
    ])
      await sendRequest('app', [...statements.map((sql) => execute(sql)), close])
    const after = await sendRequest(
      'other',
      [execute('commit'), execute('select count(*) from s'), close],
      baton,
    )
    expect(after).toContain('"value":"2"')
  })

  /** Checks that the server does not crash while the work runs: its streams must still exist afterwards. */
  async function expectNoCrash(work: () => Promise<void>): Promise<void> {
    let transaction = await attacked.post('/other/v3/pipeline', { requests: [execute('begin')] })
    const running = work()
    const settled = running.then(
      () => true,
      () => true,
    )
    // a stream expires after 10 s without a request, and some calls take seconds
    while (!(await Promise.race([settled, sleep(500, false)]))) {
      transaction = await attacked.post('/other/v3/pipeline', {
        baton: batonOf(transaction),
        requests: [execute('select 1')],
      })
    }
    await running
    expect(await sendRequest('other', [execute('commit'), close], batonOf(transaction))).toContain(
      '"type":"ok"',
    )
  }

  describe('a search with a row count that crashes libsql-server', () => {
    beforeAll(async () => {
      for (const sql of CALL_SCHEMA) await sendRequest('app', [execute(sql), close])
      // for searches whose row count is a column, not a constant
      await sendRequest('app', [
        execute('create table n(k)'),
        execute('insert into n values (0), (4294967296)'),
        close,
      ])
    })

    const createSearch = (rows: string): string => `select id from vector_top_k('vec_e', '[1,2,3]', ${rows})`

    test.each([
      ...['0', '0.0', '-0', 'false', '1-1', '(select 0)', '4294967296', '268435456', '2147483647'].map(
        createSearch,
      ),
      createSearch('-9223372036854775808'),
      `select * from n cross join vector_top_k('vec_e', '[1,2,3]', n.k)`,
      `select (select id from vector_top_k('vec_e', '[1,2,3]', n.k)) from n`,
      "select 1 in vector_top_k('vec_e', '[1,2,3]', 0)",
      `select * from main."vector_top_k"('vec_e', '[1,2,3]', 0)`,
      "select * from 'vector_top_k'('vec_e', '[1,2,3]', 0)",
      "select q.id from vector_top_k q where q.idx = 'vec_e' and q.vector = '[1,2,3]' and q.k = 0",
      "select q.id from vector_top_k('vec_e', '[1,2,3]') q where q.k = 0",
      "create view top as select idx, vector, k, id from vector_top_k; select * from top where idx = 'vec_e' and vector = '[1,2,3]' and k = 0",
      "create trigger n_top after insert on n begin insert into n select id from vector_top_k('vec_e', '[1,2,3]', new.k); end; insert into n values (0)",
      'select k from n',
    ])('%s', async (sql) => {
      await expectNoCrash(async () => {
        await sendRequest('app', [execute(sql), close])
        await sendRequest('app', [{ type: 'batch', batch: { steps: [{ stmt: { sql } }] } }, close])
        await sendRequest('app', [{ type: 'sequence', sql }, close])
        await sendRequest('app', [{ type: 'describe', sql }, close])
        await attacked.post('/app/v3/cursor', { batch: { steps: [{ stmt: { sql } }] } })
      })
    })

    test.each([0n, 0, 2n ** 28n, 2n ** 32n, -(2n ** 63n)])('as a bound parameter: %s', async (rows) => {
      const value =
        typeof rows === 'bigint' ? { type: 'integer', value: String(rows) } : { type: 'float', value: rows }
      const positional = { sql: createSearch('?'), args: [value] }
      const withName = { sql: createSearch(':k'), named_args: [{ name: 'k', value }] }
      const withId = { sql_id: 1, args: [value] }
      await expectNoCrash(async () => {
        for (const stmt of [positional, withName]) {
          await sendRequest('app', [{ type: 'execute', stmt }, close])
          await sendRequest('app', [{ type: 'batch', batch: { steps: [{ stmt }] } }, close])
          await attacked.post('/app/v3/cursor', { batch: { steps: [{ stmt }] } })
        }
        const storeSql = { type: 'store_sql', sql_id: 1, sql: createSearch('?') }
        await sendRequest('app', [storeSql, { type: 'execute', stmt: withId }, close])
      })
    })

    test('a search with another row count succeeds', async () => {
      const stmt = { sql: createSearch('?'), args: [{ type: 'integer', value: '2' }] }
      const reply = JSON.parse(
        await sendRequest('app', [{ type: 'execute', stmt }, execute(createSearch('1')), close]),
      )
      const rows = reply.results.map(
        (result: { response: { result?: { rows: unknown[] } } }) => result.response.result?.rows.length,
      )
      expect(rows).toEqual([2, 1, undefined])
    })

    test('calls with unexpected arguments, as literals and as parameters', async () => {
      const random = seeded(SEED)
      const rounds = IS_RELEASE ? 60 : 10
      for (let round = 0; round < rounds; round += 1) {
        const calls = Array.from({ length: 25 }, () => {
          const { sql, args } = generateBoundCall(random)
          return [execute(sql, ...args), execute(generateCall(random))]
        }).flat()
        await expectNoCrash(async () => {
          const reply = await sendRequest('app', [...calls, close])
          expect(reply, `TEST_SEED=${SEED}: ${JSON.stringify(calls)}`).not.toMatch(
            /libsql-server exited|engine/,
          )
        })
      }
    })
  })

  test('ATTACH for reading, on a stream and in a single request', async () => {
    const attach = execute(`attach "${attacked.server.databaseId('other')}" as x`)
    const read = execute('select count(*) from x.s')
    expect(await sendRequest('app', [attach, execute('begin'), read, execute('commit'), close])).toContain(
      '"value":"2"',
    )
    const { baton: attachedBaton } = JSON.parse(await sendRequest('app', [attach])) as { baton: string }
    expect(await sendRequest('app', [read, close], attachedBaton)).toContain('"value":"2"')
  })
})
