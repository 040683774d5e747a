import { expect, test } from 'vitest'
import { InsertedRowids } from './inserted-rowids.ts'
import { encodeStatement } from './statement.ts'

const response = (rowid: string | null, count = 1) => ({
  cols: [],
  rows: [],
  affected_row_count: count,
  last_insert_rowid: rowid,
})
const UPSERT = 'insert into t values (1) on conflict do update set a = 2'

test('the rowid of an insert is exact', () => {
  const rowids = new InsertedRowids()
  expect(rowids.read(response('9223372036854775807'), encodeStatement('insert into t values (1)'))).toBe(
    9223372036854775807n,
  )
  expect(rowids.read(response('-5'), encodeStatement('/* x */ REPLACE into t values (1)'))).toBe(-5n)
  expect(
    rowids.read(response('7'), encodeStatement('with x as (select 1) insert into t select * from x')),
  ).toBe(7n)
  expect(rowids.read(response('7'), encodeStatement('insert into other values (1)'))).toBe(7n)
})

test('rowid 0 counts as a rowid', () => {
  const rowids = new InsertedRowids()
  expect(rowids.read(response('0'), encodeStatement('insert into t (id) values (0)'))).toBe(0n)
  expect(rowids.read(response('0'), encodeStatement('insert into t (id) values (0)'))).toBe(0n)
})

test('an UPDATE in a WITH statement has no rowid, even if it calls replace()', () => {
  const rowids = new InsertedRowids()
  expect(
    rowids.read(
      response('5'),
      encodeStatement("with x as (select 1) update t set a = replace(a, 'insert', '')"),
    ),
  ).toBeNull()
})

test.each([
  ['inserted nothing', response('5', 0), 'insert or ignore into t values (1)'],
  ['is an update, for which the server repeats the previous rowid', response('5'), 'update t set a = 1'],
  ['is a delete', response('5'), 'delete from t'],
  ['is on a stream that has inserted nothing', response('0'), UPSERT],
  ['got no rowid from the server', response(null), 'insert into t values (1)'],
])('a statement that %s has no rowid', (_, result, sql) => {
  expect(new InsertedRowids().read(result, encodeStatement(sql))).toBeNull()
})

test('an upsert that updated a row does not return the rowid of the previous insert', () => {
  const rowids = new InsertedRowids()
  expect(rowids.read(response('5'), encodeStatement('insert into other values (1)'))).toBe(5n)
  expect(rowids.read(response('5'), encodeStatement(UPSERT))).toBeNull()
  expect(rowids.read(response('6'), encodeStatement(UPSERT))).toBe(6n)
})
