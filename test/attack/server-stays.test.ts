import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close, execute, type WireRequest } from '../conformance/wire.ts'
import { AttackedServer, BACKENDS } from './attacked-server.ts'

/** Statements of which each has ended a server, with those before it in one request; with any token, a reader's too. */
const READS: readonly (readonly string[])[] = [
  ["select replicate('abc', 2863311531)"],
  ["select padl('a', 4294967295)", "select padr('a', 4294967295)", "select padc('é€😀', 4294967295)"],
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

/** The same for those who may write. */
const WRITES: readonly (readonly string[])[] = [
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

const byAttach = (id: string): readonly (readonly string[])[] => {
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

describe.each(BACKENDS)('the server stays, with open transactions: %s', (backend) => {
  let attacked: AttackedServer
  let baton: string | null

  beforeAll(async () => {
    attacked = await AttackedServer.start({ backend, auth: false })
    for (const name of ['app', 'other']) {
      await attacked.server.updateDatabase(name, { allowAttach: true })
      await ask(name, [execute('create table s(a)'), execute('insert into s values (1)'), close])
    }
    const open = await ask('other', [execute('begin'), execute('insert into s values (2)')])
    baton = (JSON.parse(open) as { baton: string }).baton
  })
  afterAll(() => attacked[Symbol.asyncDispose]())

  async function ask(
    name: string,
    requests: readonly WireRequest[],
    of: string | null = null,
  ): Promise<string> {
    return (await attacked.post(`/${name}/v3/pipeline`, { baton: of, requests })).text
  }

  test('functions, vectors and ATTACH', async () => {
    for (const statements of [...READS, ...WRITES, ...byAttach(attacked.server.databaseId('other'))])
      await ask('app', [...statements.map((sql) => execute(sql)), close])
    const after = await ask('other', [execute('commit'), execute('select count(*) from s'), close], baton)
    expect(after).toContain('"value":"2"')
  })

  test('ATTACH to read, from a stream and in one request', async () => {
    const attach = execute(`attach "${attacked.server.databaseId('other')}" as x`)
    const read = execute('select count(*) from x.s')
    expect(await ask('app', [attach, execute('begin'), read, execute('commit'), close])).toContain(
      '"value":"2"',
    )
    const { baton: opened } = JSON.parse(await ask('app', [attach])) as { baton: string }
    expect(await ask('app', [read, close], opened)).toContain('"value":"2"')
  })
})
