import { existsSync } from 'node:fs'
import { readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close } from '../server/wire.ts'
import { AttackedServer, KINDS } from './attacked-server.ts'

const SECRET = 'the content of a file that is none of your business'

/** Returns statements that try to read the secret, to create a file, or to access the process, in this order on one stream. */
function createAttacks(secret: string, out: string): readonly (readonly string[])[] {
  const evil = `a(x); attach '${out}' as z; create table z.t(a);--`
  return [
    [`select writefile('${out}', 'x')`],
    [`select "writefile"('${out}', 'x')`, `select [WRITEFILE] /* */ ('${out}', 'x')`],
    [`select \`readfile\`('${secret}')`, `select readfile('${secret}') -- '`],
    [`with r(a) as (select readfile('${secret}')) select a from r`],
    [`values (readfile('${secret}'))`, `select 1 where readfile('${secret}') is not null`],
    [`create view v1 as select readfile('${secret}') as a`, 'select a from v1'],
    [`create table t1(a, b default (readfile('${secret}')))`, 'insert into t1(a) values (1) returning b'],
    [`create table t2(a, b as (readfile('${secret}')))`, 'insert into t2(a) values (1) returning b'],
    [`create table t3(a check (writefile('${out}', a) > 0))`, "insert into t3 values ('x')"],
    [
      'create table t4(a)',
      `create trigger g4 after insert on t4 begin select writefile('${out}', 'x'); end`,
      'insert into t4 values (1)',
    ],
    ['create table t5(a)', `create index i5 on t5(readfile(a))`, `insert into t5 values ('${secret}')`],
    [`select data from fsdir('${secret}')`, `select data from main.fsdir where path = '${secret}'`],
    [`select data from 'fsdir'('${secret}')`, `select data from main.'fsdir' where path = '${secret}'`],
    [`with fsdir(a) as (select 1) select data from main.fsdir('${secret}')`],
    [`select quote(sha3_query('select writefile(''${out}'', 1)'))`],
    [
      'create virtual table f1 using fts4(a, compress=lower, uncompress=readfile)',
      `insert into f1 values ('${secret}')`,
      'select * from f1',
    ],
    [
      `create virtual table f2 using fts5(data, content='fsdir', content_rowid='path')`,
      'select * from f2',
      'select data from f2 where rowid = 1',
    ],
    [`create virtual table f3 using fts4(data, content="fsdir")`, 'select * from f3'],
    [`create virtual table z1 using zipfile('${secret}')`, `select * from zipfile('${secret}')`],
    [`create virtual table c1 using csv(filename='${secret}')`, 'select * from c1'],
    [`select fts3_tokenizer('simple')`, `select fts3_tokenizer('x', x'4141414141414141')`],
    [`select load_extension('${out}')`, `select load_extension('${out}', 'entry')`],
    [`select edit('x', 'touch ${out}; true')`],
    [`select sqlite3mc_config('cipher')`],
    [`attach '${out}' as a1`, `attach ('${out}' || '') as a2`, `attach database "file:${out}" as a3`],
    [`create table a1.t(a)`, `vacuum into '${out}'`, `vacuum main into '${out}'`],
    [`pragma temp_store_directory = '${out}'`, `pragma data_store_directory = '${out}'`],
    [
      'create table e1(id integer primary key, e F32_BLOB(2))',
      `create index "${evil}" on e1(libsql_vector_idx(e))`,
    ],
    [
      'pragma writable_schema = on',
      'create table s1(a)',
      `update sqlite_schema set sql = 'create table s1(a check (writefile(''${out}'', a) > 0))' where name = 's1'`,
      "insert into s1 values ('x')",
    ],
    ['create table d1(a)', 'update sqlite_dbpage set data = data where pgno = 1'],
  ]
}

/** Every part of the interface that accepts SQL, with the statements of an attack in order. */
const ROUTES: Readonly<Record<string, (statements: readonly string[]) => { path: string; body: object }>> = {
  execute: (statements) => ({
    path: '/v3/pipeline',
    body: { requests: [...statements.map((sql) => ({ type: 'execute', stmt: { sql } })), close] },
  }),
  batch: (statements) => ({
    path: '/v2/pipeline',
    body: {
      requests: [{ type: 'batch', batch: { steps: statements.map((sql) => ({ stmt: { sql } })) } }, close],
    },
  }),
  sequence: (statements) => ({
    path: '/v3/pipeline',
    body: { requests: [...statements.map((sql) => ({ type: 'sequence', sql })), close] },
  }),
  'one sequence': (statements) => ({
    path: '/v3/pipeline',
    body: { requests: [{ type: 'sequence', sql: statements.join(';\n') }, close] },
  }),
  'describe, then execute': (statements) => ({
    path: '/v3/pipeline',
    body: {
      requests: [
        ...statements.flatMap((sql) => [
          { type: 'describe', sql },
          { type: 'execute', stmt: { sql } },
        ]),
        close,
      ],
    },
  }),
  'stored text, described and executed': (statements) => ({
    path: '/v3/pipeline',
    body: {
      requests: [
        ...statements.flatMap((sql, id) => [
          { type: 'store_sql', sql_id: id, sql },
          { type: 'describe', sql_id: id },
          { type: 'execute', stmt: { sql_id: id } },
        ]),
        close,
      ],
    },
  }),
  cursor: (statements) => ({
    path: '/v3/cursor',
    body: { batch: { steps: statements.map((sql) => ({ stmt: { sql } })) } },
  }),
  'explain, then execute': (statements) => ({
    path: '/v3/pipeline',
    body: {
      requests: [
        ...statements.flatMap((sql) => [
          { type: 'execute', stmt: { sql: `explain ${sql}` } },
          { type: 'execute', stmt: { sql } },
        ]),
        close,
      ],
    },
  }),
  'array for an object': (statements) => ({
    path: '/v3/pipeline',
    body: [null, statements.map((sql) => ({ type: 'execute', stmt: [sql, null, [], []] }))],
  }),
}

describe.each(KINDS)('SQL cannot access anything outside its database: $backend, auth $auth', (kind) => {
  let attacked: AttackedServer
  let secret: string
  let out: string
  let filesBefore: string[]

  beforeAll(async () => {
    attacked = await AttackedServer.start(kind)
    secret = join(attacked.directory, 'secret.txt')
    out = join(attacked.directory, 'out')
    await writeFile(secret, SECRET)
    filesBefore = await readdir(attacked.directory)
  })
  afterAll(() => attacked[Symbol.asyncDispose]())

  test.for(Object.keys(ROUTES))('%s', async (name) => {
    const route = ROUTES[name] as (typeof ROUTES)[string]
    const failures: string[] = []
    const base64 = Buffer.from(SECRET).toString('base64').replace(/=+$/, '')
    for (const statements of createAttacks(secret, out)) {
      const { path, body } = route(statements)
      const { text } = await attacked.post(`/app${path}`, body, await attacked.headers())
      // each attack has a step that must fail; a batch response always contains "error", so only its effects are checked
      if (!/error|Cannot deserialize/.test(text)) failures.push(`no error: ${statements.join('; ')}`)
      if (text.includes(SECRET) || text.includes(base64)) failures.push(`read: ${statements.join('; ')}`)
      if (existsSync(out)) failures.push(`wrote: ${statements.join('; ')}`)
      await rm(out, { recursive: true, force: true })
    }
    expect(failures).toEqual([])
    expect(await readdir(attacked.directory)).toEqual(filesBefore)
  })

  test('accepts SQL that only resembles an attack', async () => {
    const sql = [
      'create table note(text, "readfiles")',
      "insert into note(text) values ('writefile(), readfile() and fsdir are functions of a shell')",
      "select text from note where text like '%readfile(%' -- readfile(1)",
      'create index "by text" on note(text)',
      'explain query plan select * from note',
    ]
    const { path, body } = (ROUTES['execute'] as (typeof ROUTES)[string])(sql)
    const { status, text } = await attacked.post(`/other${path}`, body, await attacked.headers('other'))
    expect([status, text.includes('"error"')]).toEqual([200, false])
  })
})
