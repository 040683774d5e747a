import { expect, test } from 'vitest'
import { summarize } from './query-summary.ts'

test.each([
  // the examples of OpenTelemetry's conventions
  ['SELECT *\nFROM wuser_table\nWHERE username = ?', 'SELECT wuser_table', 'wuser_table'],
  [
    'INSERT INTO shipping_details (order_id, address) SELECT order_id, address FROM orders WHERE order_id = ?',
    'INSERT shipping_details SELECT orders',
    null,
  ],
  ['SELECT * FROM songs, artists WHERE songs.artist_id == artists.id', 'SELECT songs artists', null],
  [
    'SELECT order_date FROM (SELECT * FROM orders o JOIN customers c ON o.customer_id = c.customer_id)',
    'SELECT SELECT orders customers',
    null,
  ],
  ['SELECT * FROM "song list", \'artists\'', 'SELECT "song list"', '"song list"'],
  // typical SQLite queries, and those that Kysely and Drizzle generate
  ['/* a from b */ select 1 -- from c', 'SELECT', null],
  ['select * from pet p, main . "owner" as o where p.a in (1, 2), x', 'SELECT pet main . "owner"', null],
  ['select a, b from pet order by a, b', 'SELECT pet', 'pet'],
  ["select 'from x' as y from [a b] where z = 'from q'", 'SELECT [a b]', '[a b]'],
  [
    'insert or replace into "pet" ("id", "name") values (?, ?), (?, ?) returning "id"',
    'INSERT "pet"',
    '"pet"',
  ],
  ['replace into pet values (replace(?, 1, 2))', 'REPLACE pet', 'pet'],
  ['insert into pet values (1) on conflict do update set name = excluded.name', 'INSERT pet', 'pet'],
  ['insert into pet default values', 'INSERT pet', 'pet'],
  ['update or ignore pet set a = (select b from pet)', 'UPDATE pet SELECT pet', 'pet'],
  ["select * from pet where name is not distinct from 'secret'", 'SELECT pet', 'pet'],
  ["select * from json_each('a', 'secret'), pet", 'SELECT json_each', 'json_each'],
  ["attach 'secret' as other", 'ATTACH', null],
  ['delete from pet returning id, name', 'DELETE pet', 'pet'],
  ['delete from pet where id = ?', 'DELETE pet', 'pet'],
  ['with recent as (select * from pet) select * from recent', 'SELECT pet SELECT recent', null],
  ['explain query plan select * from pet', 'EXPLAIN SELECT pet', null],
  [
    'create table if not exists pet (id references owner on delete cascade on update cascade)',
    'CREATE TABLE pet',
    null,
  ],
  ['create unique index "i" on pet (a)', 'CREATE INDEX "i"', null],
  ['create trigger t after update on pet begin delete from log; end', 'CREATE TRIGGER t DELETE log', null],
  ['alter table pet add column b', 'ALTER TABLE pet', null],
  ['drop view if exists v', 'DROP VIEW v', null],
  ['pragma foreign_keys', 'PRAGMA foreign_keys', null],
  ['begin immediate', 'BEGIN', null],
  ['vacuum', 'VACUUM', null],
  ['values (1), (2)', 'VALUES', null],
  [';', 'SQL', null],
  ['(select 1)', 'SELECT', null],
  ['', 'SQL', null],
])('%s', (sql, text, table) => {
  expect(summarize(sql)).toEqual({ text, table })
})

test('a summary is truncated between names, at 255 characters', () => {
  const names = Array.from({ length: 50 }, (_, index) => `table_${index + 10}`)
  const { text } = summarize(`select * from ${names.join(', ')}`)
  expect(text).toBe(`SELECT ${names.slice(0, 27).join(' ')}`)
  expect(text.length).toBeLessThanOrEqual(255)
})

test.each([
  ["delete from pet returning 'a', 'secret'", 'DELETE pet'],
  ["select 1 from 'secret', pet", 'SELECT pet'],
  ["vacuum into '/secret'", 'VACUUM'],
  ["pragma key = 'secret'", 'PRAGMA key'],
  // unterminated, like SQL that was truncated inside a value
  ["insert into pet values ('it came from secret", 'INSERT pet'],
  ['insert into pet values ("it came from secret', 'INSERT pet'],
  ['insert into pet values ([it came from secret', 'INSERT pet'],
  [`insert into pet values ('${'it came from secret, '.repeat(1_000)}')`, 'INSERT pet'],
  ['insert into pet values (1) /* it came from secret', 'INSERT pet'],
])('the summary of %s contains no value', (sql, text) => {
  expect(summarize(sql).text).toBe(text)
})
