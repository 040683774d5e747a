import { describe, expect, test } from 'vitest'
import { findRejection, hasAttach, type SqlUse } from './sql-guard.ts'

const run: SqlUse = { kind: 'run', mayWrite: true }

describe('rejects a function that is not known to be safe wherever it is called', () => {
  test.each([
    "select replicate('abc', 2863311531)",
    'select libsql_vector_idx()',
    'select "libsql_vector_idx"(a) from t',
    'create index i on t(libsql_vector_idx())',
    "SELECT RePLiCaTe /* */ -- x\n ('abc', 1)",
    `select "padl"('a', 4294967295), [padr]('a', 1), \`padc\`('a', 1)`,
    'values (rightstr(?, 1))',
    'select 1 where strfilter(a, b)',
    'select 1 from t group by reverse(a) having 1 order by 1',
    'select count(*) filter (where proper(a)) over (order by charindex(a, b)) from t',
    'select * from a where b, leftstr(1, 2)',
    'select 1 is distinct from 2, leftstr(1, 2)',
    'select * from t join u on difference(t.a, u.a)',
    'select a in (select mode(b) from t)',
    'select case when median(a) then 1 end from t',
    "select 1 is distinct from replicate('abc', 1)",
    "select 1 is not distinct from replicate('abc', 1)",
    "select 1 from t join u on t.a is distinct from replicate('abc', 1)",
    "select 1 from t join u on t.a is not distinct from replicate('abc', 1), v",
    "select 1 from t join u on (t.a is distinct from replicate('abc', 1))",
    "select 1 from t, json_each(t.a is distinct from replicate('abc', 1))",
    'select t.a regexp left from t',
    'select 1 from t join u on t.a regexp left join v',
    'select 1 from t join u on 1 = a regexp left join v',
    'select 1 from t join u on a is distinct from b regexp left join v',
    'select 1 from t join u on (a regexp left) join v',
    'select 1 from t join u on x in (a, b regexp left)',
    'select 1 from json_each(a regexp left) join v',
    'select 1 from (select a regexp left from t)',
    'create view v as select replicate(a, 2) from t',
    'create view v(a) as select replicate(a, 2) from t',
    'create trigger g after insert on t begin select replicate(new.a, 2); end',
    'create trigger g after insert on t when replicate(new.a, 2) begin select 1; end',
    'create table t(a default (replicate(1, 2)))',
    'create table t(a, b as (replicate(a, 2)))',
    'create table t(a generated always as (replicate(a, 2)) stored)',
    'create table t(a, check (replicate(a, 2)))',
    'create table t(a varchar(10) check (replicate(a, 2)))',
    'create table t as select replicate(1, 2)',
    'create table t as values (replicate(1, 2))',
    'create index i on t(replicate(a, 2))',
    'create index i on t(a) where replicate(a, 2)',
    'alter table t add column a default (replicate(1, 2))',
    'insert into t(a) values (replicate(1, 2))',
    'insert into t(a) select replicate(1, 2)',
    'insert into t(a) values (1) on conflict (a) do update set a = replicate(1, 2)',
    'insert into t(a) values (1) returning replicate(a, 2)',
    'update t set (a, b) = (replicate(1, 2), 3)',
    'delete from t where replicate(a, 2) limit replicate(1, 2)',
    'with q as (select replicate(1, 2)) select * from q',
    "attach replicate('a', 2) as ('x')",
    "attach 'x' as replicate('a', 2)",
    'explain select replicate(1, 2)',
    'select not regexp(a, b)',
    "select 'a' regexp '((((('",
    'select * from t where t.a not regexp ?',
    'select * from t where (a) Regexp (b)',
    'select ?1 regexp ?2',
    'select ?1regexp ?2',
    "select 1. regexp 'a'",
    "select .5 regexp 'a'",
    'select -1. regexp .5',
    'create view v as select 1. regexp a from t',
    "select 'a' regexp replace(a, 'b', 'c')",
    'select key regexp desc from t',
    'select view regexp (a), with regexp (a) from t',
    "attach 'a' regexp ('b') as ('x')",
    'create table t(a check (key regexp desc))',
    'create temp table t(a varchar(10) check (replicate(a, 2)))',
    'create temp table t as select replicate(1, 2)',
    'select * from t join u using (a) where replicate(1, 2)',
    'select * from t join u using (a), (v join w on replicate(1, 2))',
    'select * from t join u using (a), (select replicate(1, 2))',
    'select * from t, (values (1), (replicate(1, 2)))',
    'select * from t join u on (replicate(1, 2))',
    'select * from t join u on a = (b, replicate(1, 2))',
    'select * from t join u on a is distinct from (b, replicate(1, 2))',
    'select * from t, "from" (replicate(1, 2))',
    'select * from json_each(1, replicate(1, 2))',
    'select 1 in (1, replicate(1, 2)), 1 in f(replicate(1, 2))',
    'select case when 1 then 2 end regexp cast(a as text)',
    'select null regexp case a when 1 then 2 end',
    'create virtual table f using fts4(a, compress=replicate, uncompress=lower)',
    `create virtual table f using fts4(a, compress=lower, uncompress="strfilter")`,
    "select $x('), replicate('a', 9) --'",
    'select no_such_function(1)',
  ])('%j', (sql) => {
    expect(findRejection(sql, run)).toMatchObject({ type: 'rejected' })
    for (const use of [
      { ...run, mayWrite: false },
      { ...run, kind: 'describe' },
      { ...run, kind: 'store' },
    ])
      expect(findRejection(sql, use as SqlUse)).toMatchObject({ type: 'rejected' })
  })

  test('rejects changes to the tables that store vector indexes', () => {
    for (const sql of [
      'update i_shadow set data = randomblob(9)',
      'update or ignore main."i_shadow" set data = 1',
      "update 'i_shadow' set data = 1",
      'delete from i_shadow',
      'replace into i_shadow values (1, 2)',
      'insert or replace into [i_shadow] values (1, 2)',
      'insert into i_shadow values (1, 2) on conflict do update set data = 1',
      'alter table i_shadow rename to q',
      'alter table q rename to i_shadow',
      'with q as (select 1) update i_shadow set data = 1',
      'create trigger g after insert on t begin update i_shadow set data = 1; end',
      'create trigger g after insert on t begin select 1; delete from i_shadow; end',
    ])
      expect([sql, findRejection(sql, run)?.type]).toEqual([sql, 'rejected'])
  })
})

describe('accepts names before parentheses that are not calls', () => {
  test.each([
    'create table if not exists main.t(a varchar(10), "b" decimal(10, 2), key varchar(255), action character (20))',
    'create table "t" ("id" integer primary key, `n` text(3) default (lower(hex(randomblob(4)))), constraint "c" check("n" > 0))',
    'create table t(a int, foreign key (a) references parent(id) on update no action, unique (a), primary key(a))',
    'create temp table t(a varchar(10))',
    'create unique index "u" on "users" ("a", lower("b")) where length(a) > 1',
    'create index if not exists main.i on strange(a collate nocase desc)',
    'create view v(a, b) as select 1, 2',
    'create view if not exists v(a) as select 1',
    'create trigger g after update of a on t begin insert into log(a) values (new.a); insert into log (a) select 1; end',
    'create virtual table f using fts5(title, mode, tokenize="porter unicode61")',
    'create virtual table f using fts4(a, compress=lower, uncompress=upper)',
    'create virtual table r using rtree(id, a, b, +c TEXT(10))',
    'insert into t(a) values (1), (2)',
    'insert into t as q (a) values (1) on conflict (a) do update set (a, b) = (select 1, 2)',
    'insert or replace into main.t (a) values (?) returning (a)',
    'replace into "t"("a") values (?)',
    'with a(x) as (select 1), b (y) as not materialized (select 2), c(z) as (values (3)) select * from a, b, c',
    'with recursive cnt(x) as (values(1) union all select x + 1 from cnt where x < 5) select x from cnt',
    "select * from email('fts5'), main.email('x') join f('y') on f.rowid = 1",
    "select * from json_each('[1]'), pragma_table_info('t') as p, generate_series(1, 2)",
    'select cast(a as decimal(10, 2)), cast(b as unsigned big int(8)), cast(c as varchar (9)) from t',
    'select a in (1), a not in (select 1), exists (select 1), not (a), a and (b) or (c), a between (1) and (2)',
    'select * from a left join b using (id) cross join (select 1) where a like (?) escape (?) limit (1) offset (2)',
    'select sum(a) filter (where b) over (partition by (c) order by (d)), rank() over w from t window w as (order by a)',
    'select iif(a, 1, 2), coalesce(a, b), count(distinct a), group_concat(a, char(44)), max(a), json_group_array(a) from t',
    "select strftime('%s', 'now'), unixepoch('now'), substr(a, 1), printf('%d', 1), vector_distance_cos(a, vector32('[1]')) from t",
    'select regexp from t',
    'select * from t regexp left join u, main.t regexp natural join u',
    'select * from (t regexp cross join u) join u regexp inner join v',
    'select * from "t" regexp full outer join u where regexp.a = 1',
    "select a.id from a, email_fts('hello') e where e.rowid = a.id",
    'select a from t order by regexp desc, b',
    'select sum(x) over (partition by regexp order by regexp rows 1 preceding) from t',
    'alter table t add column regexp text',
    'select t.regexp, (regexp), regexp as r, max(regexp) from t where regexp = 1 and regexp is null',
    'create table t(regexp text, a)',
    'alter table t add column b varchar(20) default (upper(1))',
    'alter table t rename column regexp to other',
    'select \'replicate(1)\', "replicate", mode, median from t -- replicate(1)',
    'pragma table_info(t)',
    'pragma main.index_list("t")',
    "select raise(abort, 'x')",
    'create temp table t(key varchar(10), a regexp not null)',
    'create temporary table if not exists t(key varchar(10))',
    'create view if not exists regexp(a) as select 1',
    'create temp view regexp(a) as select 1',
    'create trigger regexp after insert on t begin select 1; end',
    'create table t(a references regexp(a), constraint regexp not null, constraint regexp foreign key (a) references u)',
    'with regexp(x) as (select 1) select * from regexp',
    'with recursive a as (select 1), regexp(x) as not materialized (select 1) select * from regexp',
    'select * from t join u using (a), email(1)',
    'select * from t join u on t.a is distinct from u.a, email(1)',
    'select * from t indexed by i, email(1)',
    'select * from (email(1) join t), (t, email(1)), ((t) join email(1))',
    'select * from t where id in email(1) or id not in main.email(1)',
    'insert into i_shadow values (1, 2)',
    'select * from i_shadow',
    'update user_shadows set a = 1',
  ])('%j', (sql) => expect(findRejection(sql, run)).toBeNull())
})

describe('a stream that attaches a database', () => {
  test.each(['attach "a" as x', '/**/ Attach database a as x', 'select 1; attach a as x', 'attach a as x\0'])(
    'is detected: %j',
    (sql) => expect(hasAttach(sql)).toBe(true),
  )
  test.each(['select attach from t', 'detach x', "select 'attach'", 'insert into attach values (1)'])(
    'is not detected in: %j',
    (sql) => expect(hasAttach(sql)).toBe(false),
  )

  test.each([
    'insert into t select * from x.t',
    'update t set a = 1',
    'replace into t values (1)',
    'delete from t',
    'create table t as select * from x.t',
    'drop table t',
    'begin immediate',
    'BEGIN EXCLUSIVE transaction',
    'select 1; begin immediate',
  ])('cannot write: %j', (sql) => {
    expect(findRejection(sql, { ...run, attach: 'attached' })).toMatchObject({ type: 'rejected' })
    expect(findRejection(sql, { ...run, attach: 'not-first' })).toBeNull()
  })

  test.each(['attach a as x', 'begin', 'begin deferred', 'select * from x.t', 'commit', 'detach x'])(
    'allows: %j',
    (sql) => expect(findRejection(sql, { ...run, attach: 'attached' })).toBeNull(),
  )

  test('must attach it in its first request', () => {
    expect(findRejection('attach a as x', { ...run, attach: 'not-first' })).toMatchObject({ name: 'ATTACH' })
  })
})
