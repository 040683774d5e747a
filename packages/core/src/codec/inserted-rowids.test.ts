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

test('rowid 0 is known unless the connection may be new', () => {
  const rowids = new InsertedRowids()
  const insertZero = encodeStatement('insert into t (id) values (0)')
  expect(rowids.read(response('0'), insertZero)).toBeNull()
  expect(rowids.read(response('1'), encodeStatement('insert into t values (1)'))).toBe(1n)
  expect(rowids.read(response('0'), insertZero)).toBe(0n)
})

test('a read does not make the previous rowid forgotten', () => {
  const rowids = new InsertedRowids()
  expect(rowids.read(response('2'), encodeStatement('insert into t values (2)'))).toBe(2n)
  expect(rowids.read(response(null, 0), encodeStatement('select 1'))).toBeNull()
  expect(rowids.read(response('2'), encodeStatement(UPSERT))).toBeNull()
})

test('after a failed statement, the rowid of an upsert is unknown until the next insert', () => {
  const rowids = new InsertedRowids()
  rowids.forget()
  expect(rowids.read(response('3'), encodeStatement(UPSERT))).toBeNull()
  expect(rowids.read(response('4'), encodeStatement(UPSERT))).toBe(4n)
})

test.each([
  ["insert into t values ('on conflict do update')", 5n],
  ['insert into t values (1) -- do update', 5n],
  ['insert into t values (1) on conflict(id)do/* */update set a = 2', null],
  ['insert into t values (1) on conflict do nothing', 5n],
  ["with x as (select 'insert into') update t set a = 1", null],
  ['with x(insert_into) as (select replace(1, 2, 3)) insert into t select * from x', 5n],
])('judges %s by its words, not by quoted text', (sql, expected) => {
  const rowids = new InsertedRowids()
  rowids.read(response('5'), encodeStatement('insert into other values (5)'))
  expect(rowids.read(response('5'), encodeStatement(sql))).toBe(expected)
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
