import type { PipelineRequest } from '@batonsql/server-common/hrana'
import { expect, test } from 'vitest'
import { phrases } from '../../../../test/support/words.ts'
import { getRequestsEffect, type StoredEffects } from './write-effect.ts'

const execute = (sql: string | null): PipelineRequest => ({
  type: 'execute',
  statement: { sql, sqlId: sql === null ? 1 : null, args: [], namedArgs: [] },
})
const getEffect = (...texts: (string | null)[]) => getRequestsEffect(texts.map(execute))

test.each([
  'select 1',
  ' VALUES (1)',
  ...phrases(`
    select 'insert into t' | /* insert */ select replace(a, 1, 2) from t; select 2
    with a as (select 1) select * from a
    with replace as (select replace(1, 2, 3)), b as (select 2) select * from replace
    explain insert into t values (1) | pragma table_info(t) | begin | BEGIN DEFERRED | savepoint a
    rollback to a | commit | end | rollback | release a | pragma foreign_keys = on | attach "other" as o
  `),
  '',
])('%s does not acquire the write lock', (sql) => {
  expect(getEffect(sql).mayWrite).toBe(false)
})

test.each([
  'insert into t values (1)',
  '-- select\nupdate t set a = 1',
  'select 1; delete from t',
  'with a as (select 1) insert into t select * from a',
  'with replace(a) as (values (1), (2)) replace into t select a from replace',
  'replace into t values (1)',
  'create table t(a)',
  'drop table t',
  'pragma user_version = 3',
  'pragma optimize',
  'explain drop index v',
  'select optimize(f) from f',
  'select 1\0; select 2',
  'begin immediate',
  'BEGIN /* now */ EXCLUSIVE',
  'something new',
  null,
])('%s may acquire the write lock', (sql) => {
  expect(getEffect(sql).mayWrite).toBe(true)
})

test('stored SQL has the effect of its text; unknown SQL may have any effect', () => {
  const stored: StoredEffects = new Map()
  const store = (sqlId: number, sql: string): PipelineRequest => ({ type: 'store_sql', sqlId, sql })
  const mayWrite = (...requests: PipelineRequest[]) => getRequestsEffect(requests, stored).mayWrite
  expect(mayWrite(execute(null))).toBe(true)
  expect(mayWrite(store(1, 'select 1'), execute(null))).toBe(false)
  expect(mayWrite(execute(null))).toBe(false)
  expect(mayWrite({ type: 'close_sql', sqlId: 1 }, store(1, 'insert into t values (1)'))).toBe(false)
  expect(mayWrite(execute(null))).toBe(true)
  for (let id = 2; id < 1_000; id += 1) mayWrite(store(id, 'select 1'))
  expect(stored.size).toBeLessThan(100)
})

test('the last statement that begins or ends a transaction determines whether one remains open', () => {
  const states = (...texts: string[]) => {
    const { beginsTransaction, endsTransaction } = getEffect(...texts)
    return { beginsTransaction, endsTransaction }
  }
  expect(states('begin', 'insert into t values (1)')).toEqual({
    beginsTransaction: true,
    endsTransaction: false,
  })
  expect(states('begin; insert into t values (1); commit')).toEqual({
    beginsTransaction: true,
    endsTransaction: true,
  })
  expect(states('commit', 'begin')).toEqual({ beginsTransaction: true, endsTransaction: false })
  expect(states('savepoint a', 'rollback to a')).toEqual({ beginsTransaction: true, endsTransaction: false })
  expect(states('insert into t values (1)')).toEqual({ beginsTransaction: false, endsTransaction: false })
})

test.each([
  'create trigger g after insert on t begin insert into u values (1); select 1; end',
  'CREATE TEMP TRIGGER IF NOT EXISTS g AFTER INSERT ON t BEGIN SELECT 1; END;',
  'create temporary trigger g after insert on t begin select 1; end',
  '/* a; */ create -- b;\n trigger "end" after insert on t begin select 1;/**/end',
  'create trigger g after update of a on t when case new.a when 1 then 2 end begin select case 1 when 1 then 2 end; end',
  "create trigger g after insert on t begin insert into u values ('; end;'); end",
  'create table u(a); create trigger g after insert on t begin select 1; end; insert into u values (1)',
  'explain create trigger g after insert on t begin select 1; end',
  'explain query plan create trigger g after insert on t begin select 1; end',
])('the end of a trigger does not end a transaction: %s', (sql) => {
  expect(getEffect(sql)).toEqual({
    mayWrite: true,
    beginsTransaction: false,
    endsTransaction: false,
    mayCommit: false,
  })
})

test.each([
  'create trigger g after insert on t begin select 1; end; commit',
  'create trigger g after insert on t begin select 1; end; end',
  'commit; create trigger g after insert on t begin select 1; end',
  'create table "trigger"(a); end',
  'create trigger g after insert on t begin select 1; end; create trigger h after insert on t begin select 1; end; end',
])('a statement before or after a trigger ends a transaction: %s', (sql) => {
  expect(getEffect(sql)).toMatchObject({ mayWrite: true, endsTransaction: true, mayCommit: true })
})

test.each([
  ['commit', true],
  ['end', true],
  ['release a', true],
  ['commit; begin', true],
  ['rollback', false],
  ['rollback to a', false],
  ['savepoint a', false],
  ['select 1', false],
])('%s: may commit an open transaction: %s', (sql, mayCommit) => {
  expect(getEffect('select 1', sql).mayCommit).toBe(mayCommit)
})

test('describing DDL may write, because the server then creates vector indexes; describing other statements may not', () => {
  const mayWrite = (sql: string) => getRequestsEffect([{ type: 'describe', sql, sqlId: null }]).mayWrite
  expect(mayWrite('drop index v')).toBe(true)
  expect(mayWrite('select 1; drop index v')).toBe(true)
  expect(mayWrite('insert into t values (1)')).toBe(false)
})
