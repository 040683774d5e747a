import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { close } from '../server/wire.ts'
import { pick } from '../support/random.ts'
import { phrases } from '../support/words.ts'

/** Statements that create every kind of object. */
export const SCHEMA: readonly string[] = phrases(`
  create table t(id integer primary key autoincrement, a, b text default 7, c as (a || b))
  create unique index t_a on t(a) | create table u(k text primary key, v) without rowid
  create table child(t_id references t(id) on delete cascade) | create view w as select id, a from t
  create trigger w_insert instead of insert on w begin insert into t(a) values (new.a); end
  create virtual table f3 using fts3(x) | create virtual table f4 using fts4(x)
  create virtual table f5 using fts5(x) | create virtual table r using rtree(id, x0, x1)
  create table vec(id integer primary key, e F32_BLOB(2))
  create index vec_e on vec(libsql_vector_idx(e)) | insert into t(a) values ('one'), ('two'), ('three')
  insert into u values ('k', 1), ('l', 2) | insert into child values (1), (2)
  insert into f3 values ('x') | insert into f3 values ('y') | insert into f4 values ('x')
  insert into f4 values ('y') | insert into f5 values ('x') | insert into f5 values ('y')
  insert into r values (1, 0, 1) | insert into vec values (1, vector('[1,2]'))
`)

/** Statements that change something, or would if they succeeded; `#` is replaced with a number. */
const CHANGES: readonly string[] = phrases(`
  insert into t(a) values (#) | insert or replace into t(id, a) values (1, #) returning *
  insert into u values ('k', #) on conflict do update set v = excluded.v | replace into u values (#, #)
  insert into w(a) values (#) | insert into t(a) select value from generate_series(#, #)
  with x(n) as (select #) insert into t(a) select n from x
  with x(n) as (select 1) update t set a = # from x where id = n
  with x(n) as (select 1) delete from t where id in x | update t set a = # where id = 1 returning id
  update or ignore u set v = v + # | update sqlite_sequence set seq = #
  update vec set e = vector('[#,#]') | delete from t | delete from child where t_id = #
  delete from vec | insert into f3(f3) values ('optimize') | insert into f4(f4) values ('rebuild')
  insert into f5(f5) values ('merge') | delete from f5 | insert into r values (#, 0, 1)
  delete from r_node | update f4_segdir set idx = # | create table made_#(a)
  create table if not exists made_# as select # as a | create temp table made_#(a)
  create index made_i# on t(b) | create index made_v# on vec(libsql_vector_idx(e))
  create view made_w# as select 1 | create trigger made_t# after insert on u begin delete from t; end
  create virtual table made_f# using fts5(x) | drop table t | drop table if exists u | drop index t_a
  drop index vec_e | drop index if exists vec_e | drop table vec | drop view w | drop trigger w_insert
  alter table t rename to made_# | alter table t rename column a to made_#
  alter table t add column made_# | alter table u drop column v | alter table vec rename to made_#
  reindex | reindex vec_e | analyze | vacuum | pragma user_version = # | pragma user_version(#)
  pragma application_id = # | pragma schema_version = # | pragma journal_mode = delete
  pragma journal_mode(off) | pragma auto_vacuum = 1 | pragma writable_schema = on
  pragma encoding = "UTF-16" | pragma optimize | pragma wal_checkpoint(truncate)
  pragma incremental_vacuum(#) | pragma rekey = '#' | update sqlite_schema set sql = null
  delete from sqlite_schema where name = 't' | attach 'file:made_#' as made_#
  select optimize(f3) from f3 limit 1 | select "optimize"(f4) from f4 limit 1
  select * from pragma_optimize(#) | select * from pragma_optimize(65535)
  select * from pragma_user_version(#) | update sqlite_dbpage set data = zeroblob(4096) where pgno = 2
  begin; insert into t(a) values (#); commit | begin immediate; drop table t; commit
  savepoint s; delete from t; release s | select 1; delete from t | select 1; drop index vec_e
`)

const BEGINNINGS = [
  '',
  '',
  '',
  ' ',
  '\n',
  ';',
  ' ; ',
  '/**/',
  '--\n',
  '\ufeff',
  '\v',
  '\u00a0',
  '\0',
  '\u200b',
  '(',
  '$x(',
]
const EXPLANATIONS = ['', '', 'explain ', 'explain query plan ', 'EXPLAIN/**/']
const BLANKS = [
  ' ',
  ' ',
  ' ',
  '\n',
  '\t',
  '\f',
  '\r',
  '/**/',
  '/* */',
  '--\n',
  '\ufeff',
  ' \ufeff',
  '\ufeff ',
  '\v',
  '\u00a0',
]
const ENDINGS = ['', '', ';', ';;', ' --', '/*', '\0', "; select '"]

/** Generates a statement with unusual spelling that must have no effect with a read-only token. */
export function generateChange(random: () => number): string {
  const statement = pick(random, CHANGES).replaceAll('#', () => String(Math.floor(random() * 100)))
  const isUnusual = random() < 0.6
  const spaced = isUnusual ? statement.replaceAll(' ', () => pick(random, BLANKS)) : statement
  const cased = random() < 0.3 ? spaced.toUpperCase() : spaced
  return (
    (isUnusual ? pick(random, BEGINNINGS) : '') +
    pick(random, EXPLANATIONS) +
    cased +
    (isUnusual ? pick(random, ENDINGS) : '')
  )
}

const createExecuteRequest = (sql: string) => ({ type: 'execute', stmt: { sql } })

/** Every way to send a statement. */
export const ROUTES: Readonly<Record<string, (sql: string) => { path: string; body: object }>> = {
  execute: (sql) => ({ path: '/v3/pipeline', body: { requests: [createExecuteRequest(sql), close] } }),
  'execute in a transaction': (sql) => ({
    path: '/v2/pipeline',
    body: {
      requests: [
        createExecuteRequest('begin'),
        createExecuteRequest(sql),
        createExecuteRequest('commit'),
        close,
      ],
    },
  }),
  batch: (sql) => ({
    path: '/v3/pipeline',
    body: {
      requests: [
        { type: 'batch', batch: { steps: [{ stmt: { sql: 'select 1' } }, { stmt: { sql } }] } },
        close,
      ],
    },
  }),
  'skipped step': (sql) => ({
    path: '/v3/pipeline',
    body: {
      requests: [
        {
          type: 'batch',
          batch: {
            steps: [{ stmt: { sql: 'select 1' } }, { stmt: { sql }, condition: { type: 'error', step: 0 } }],
          },
        },
        close,
      ],
    },
  }),
  sequence: (sql) => ({ path: '/v3/pipeline', body: { requests: [{ type: 'sequence', sql }, close] } }),
  describe: (sql) => ({ path: '/v3/pipeline', body: { requests: [{ type: 'describe', sql }, close] } }),
  'stored text': (sql) => ({
    path: '/v3/pipeline',
    body: {
      requests: [
        { type: 'store_sql', sql_id: 1, sql },
        { type: 'execute', stmt: { sql_id: 1 } },
        { type: 'sequence', sql_id: 1 },
        { type: 'close' },
      ],
    },
  }),
  'describe of a stored text': (sql) => ({
    path: '/v3/pipeline',
    body: {
      requests: [{ type: 'store_sql', sql_id: 1, sql }, { type: 'describe', sql_id: 1 }, { type: 'close' }],
    },
  }),
  cursor: (sql) => ({ path: '/v3/cursor', body: { batch: { steps: [{ stmt: { sql } }] } } }),
}

/** Returns the hashes of the files of all databases in a folder, including WALs. */
export async function hashDatabases(folder: string): Promise<Record<string, string>> {
  const files = await readdir(folder, { recursive: true })
  const hashes: Record<string, string> = {}
  for (const file of files.filter((path) => /[\\/]data(?:\.db)?(?:-wal|\.wal)?$/.test(path))) {
    const bytes = await readFile(join(folder, file)).catch(() => null)
    if (bytes !== null) hashes[file] = createHash('sha256').update(bytes).digest('hex')
  }
  return hashes
}
