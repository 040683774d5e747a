import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PipelineRequest } from '@batonsql/server-common/hrana'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hasSqld } from '../../../../test/support/has-sqld.ts'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { phrases } from '../../../../test/support/words.ts'
import { startSqld } from '../process/process.ts'
import { getRequestsEffect } from './write-effect.ts'

/** Creates every kind of object again. */
const SCHEMA = `
  drop table if exists t; drop table if exists made; drop view if exists w; drop view if exists made_w;
  drop table if exists vec; drop table if exists f3; drop table if exists f5; drop table if exists made_f;
  create table t(id integer primary key, a); create index t_a on t(a); insert into t(a) values (1), (2), (3);
  create view w as select a from t;
  create table vec(id integer primary key, e F32_BLOB(2)); create index vec_e on vec(libsql_vector_idx(e));
  insert into vec values (1, vector('[1,2]'));
  create virtual table f3 using fts3(x); insert into f3 values ('x'); insert into f3 values ('y');
  create virtual table f5 using fts5(x); insert into f5 values ('x');`

const PRAGMAS = (
  'analysis_limit application_id auto_vacuum automatic_index busy_timeout cache_size cache_spill cell_size_check ' +
  'checkpoint_fullfsync collation_list compile_options data_version database_list defer_foreign_keys encoding ' +
  'foreign_key_check foreign_key_list foreign_keys freelist_count fullfsync function_list hard_heap_limit ' +
  'ignore_check_constraints incremental_vacuum index_info index_list index_xinfo integrity_check journal_mode ' +
  'journal_size_limit legacy_alter_table legacy_file_format locking_mode max_page_count mmap_size module_list ' +
  'optimize page_count page_size pragma_list query_only quick_check read_uncommitted recursive_triggers ' +
  'reverse_unordered_selects schema_version secure_delete shrink_memory soft_heap_limit stats synchronous table_info ' +
  'table_list table_xinfo temp_store threads trusted_schema user_version wal_autocheckpoint wal_checkpoint writable_schema'
).split(' ')

const STATEMENTS: readonly string[] = [
  ...phrases(`
    select 1 | values (1) | select optimize(f3) from f3 limit 1 | select "optimize"(f3) from f3 limit 1
    with x as (select 1) select * from x | with replace as (select 1) select * from replace
    with x as (select 9) insert into t(a) select * from x
    with x as (select 1) update t set a = 9 where id in x
    with x as (select 1) delete from t where id in x | insert into t(a) values (9)
    insert into f3(f3) values ('optimize') | replace into t values (1, 9)
    update t set a = 9 where id = 1 | delete from t where id = 1 | create table made(a)
    create index made_i on t(a) | create index made_v on vec(libsql_vector_idx(e))
    create view made_w as select 1 | create trigger made_t after insert on t begin delete from vec; end
    create virtual table made_f using fts5(x) | drop table t | drop table vec | drop index t_a
    drop index vec_e | drop index if exists vec_e | drop view w | alter table t rename to made
    alter table vec rename to made | alter table t add column b | analyze | reindex | reindex vec_e
    vacuum | begin | begin immediate | begin exclusive | begin concurrent | savepoint inner | commit
    end transaction | rollback | rollback to s | rollback transaction to savepoint s | release s
    release savepoint s | commit; begin | release s; savepoint s | end; select 1
    select 1; drop index vec_e | detach main
  `),
  ...PRAGMAS.flatMap((name) => [`pragma ${name}`, `pragma ${name} = 1`, `pragma main.${name}(t)`])
    // the server could execute nothing else
    .filter((sql) => sql !== 'pragma hard_heap_limit = 1'),
]
const SPELLINGS: readonly ((sql: string) => string)[] = [
  (sql) => sql,
  (sql) => `explain ${sql}`,
  (sql) => `explain query plan ${sql}`,
  (sql) => `/* select */ ${sql.toUpperCase()};`,
  (sql) => `;--\n${sql.replaceAll(' ', '/**/ ')}`,
]
const PRELUDES: readonly string[] = [
  '',
  'begin; insert into t(a) values (7)',
  'savepoint s; insert into t(a) values (7)',
  'begin; savepoint s; insert into t(a) values (7)',
]

const directory = createTemporaryDirectory(afterAll)
let server: Awaited<ReturnType<typeof startSqld>>
beforeAll(async () => {
  if (!hasSqld) return
  server = await startSqld({ dataDirectory: directory })
})
afterAll(async () => {
  if (!hasSqld) return
  await server.close()
})

interface Reply {
  readonly baton: string | null
  readonly results: readonly { readonly type: string }[]
}

/** Sends requests, of which the first must succeed. */
async function send(
  requests: readonly [object, ...object[]],
  baton: string | null = null,
): Promise<string | null> {
  const body = JSON.stringify({ baton, requests })
  const response = await fetch(`${server.url}/v3/pipeline`, { method: 'POST', body })
  const text = await response.text()
  const reply = response.status === 200 ? (JSON.parse(text) as Reply) : null
  if (reply?.results[0]?.type !== 'ok') throw new Error(`${body}: ${text}`)
  return reply.baton
}

async function hashFiles(): Promise<string> {
  const files = await readdir(directory, { recursive: true })
  const hash = createHash('sha256')
  for (const file of files.filter((path) => /[\\/]data(?:-wal)?$/.test(path)).sort())
    hash.update(await readFile(join(directory, file)))
  return hash.digest('hex')
}

interface Case {
  /** Statements that the stream has executed before. */
  readonly prelude: string
  readonly request: PipelineRequest
}

/** Whether requests, each on a stream of its own, change the file of the database. Their transactions remain open. */
async function changeFile(cases: readonly Case[]): Promise<boolean> {
  await send([{ type: 'sequence', sql: SCHEMA }, { type: 'close' }])
  const before = await hashFiles()
  for (const { prelude, request } of cases) {
    const baton = await send([{ type: 'sequence', sql: prelude }, request])
    if (baton !== null && cases.length > 1) await send([{ type: 'close' }], baton)
  }
  return (await hashFiles()) !== before
}

/** Returns the requests that change the file. */
async function findChanges(cases: readonly Case[]): Promise<readonly Case[]> {
  if (cases.length === 0 || !(await changeFile(cases))) return []
  if (cases.length === 1) return cases
  const half = Math.ceil(cases.length / 2)
  return [...(await findChanges(cases.slice(0, half))), ...(await findChanges(cases.slice(half)))]
}

function createCases(): readonly Case[] {
  const cases: Case[] = []
  const run = (sql: string, prelude: string): unknown =>
    cases.push({ prelude, request: { type: 'sequence', sql, sqlId: null } })
  for (const [index, statement] of STATEMENTS.entries()) {
    const isPragma = statement.startsWith('pragma')
    for (const prelude of isPragma ? [''] : PRELUDES) run(statement, prelude)
    for (const sql of SPELLINGS.slice(0, isPragma ? 1 : undefined).map((spell) => spell(statement))) {
      if (sql !== statement) run(sql, PRELUDES[index % PRELUDES.length] as string)
      if (!isPragma || sql.includes('='))
        cases.push({ prelude: '', request: { type: 'describe', sql, sqlId: null } })
    }
  }
  return cases
}

test.skipIf(!hasSqld)(
  'only COMMIT, END and RELEASE change the file of the server although they do not write themselves',
  async () => {
    const effects = createCases().map((item) => ({ ...item, effect: getRequestsEffect([item.request]) }))
    const reads = effects.filter(({ effect }) => !effect.mayWrite)
    const mayCommit = ({ prelude, effect }: (typeof reads)[number]): boolean =>
      prelude !== '' && effect.mayCommit
    expect(await findChanges(reads.filter((item) => !mayCommit(item)))).toEqual([])
    for (const prelude of PRELUDES.slice(1)) {
      const ends = reads.filter((item) => item.prelude === prelude && mayCommit(item))
      expect([prelude, await changeFile(ends)]).toEqual([prelude, true])
    }
  },
)
