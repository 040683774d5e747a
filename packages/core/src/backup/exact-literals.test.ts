import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { tableOf, withExactLiterals } from './exact-literals.ts'

const insert = (values: string): string => `INSERT INTO t VALUES(${values})`

test.each([
  ['0.1', '0.10000000000000000555'],
  ['-2.5', '-2.5000000000000000000'],
  ['1e300', '1.0000000000000000525e+300'],
  ['-1.7976931348623157e308', '-1.7976931348623157e+308'],
  ['1.7976931348623157081e+308', '1.7976931348623157e+308'],
  ['1.5E-7', '1.4999999999999999321e-7'],
  ['5.', '5.0000000000000000000'],
  ['.5', '0.50000000000000000000'],
  ['100000000000000000000', '1.0000000000000000000e+20'],
  ['9223372036854775807', '9223372036854775807'],
  ['-9223372036854775808', '-9223372036854775808'],
  ['-9223372036854775809', '-9223372036854775808.0'],
  ['9223372036854775808', '9223372036854775808.0'],
  ['-123456789012345678901.0', '-1.2345678901234568397e+20'],
  ['-12345678901234567890e3', '-1.2345678901234567741e+22'],
  ['1', '1'],
  ['1e999', '1e999'],
  ["'0.1',X'0e1f',\"a0.1\",0x1e1", "'0.1',X'0e1f',\"a0.1\",0x1e1"],
  ['"0.1",0.5', '"0.1",0.50000000000000000000'],
  ["/* it's 0.1 */ 0.5,'0.1'", "/* it's 0.1 */ 0.50000000000000000000,'0.1'"],
  ["0.5 -- it's 0.1\n,'0.1'", "0.50000000000000000000 -- it's 0.1\n,'0.1'"],
  ["'it''s 0.1',0.5", "'it''s 0.1',0.50000000000000000000"],
  ['inf,-inf', '9e999,-9e999'],
  ["unistr('two\\u000alines'),1", "'two\nlines',1"],
  ["unistr('it''s \\\\ \\+01f600 \\U0001F600 \\0041')", "'it''s \\ 😀 😀 A'"],
  ["unistr('\\u0000x')", "CAST(X'0078' AS TEXT)"],
  ["replace('a\\nb 0.1','\\n',char(10))", "replace('a\\nb 0.1','\\n',char(10))"],
])('the values %j', (values, expected) => {
  expect(withExactLiterals(insert(values))).toBe(insert(expected))
})

test.each([
  'INSERT INTO main.t',
  'INSERT INTO "main"."it""s" (a, "b)")',
  "insert or replace into 't'",
  'REPLACE INTO [a t]',
  'INSERT\nINTO `t`',
])('the values of %s', (head) => {
  expect(withExactLiterals(`${head} VALUES (0.5), (0.25)`)).toBe(
    `${head} VALUES (0.50000000000000000000), (0.25000000000000000000)`,
  )
})

test.each([
  ['INSERT INTO "a""b" VALUES(1)', 'a"b'],
  ["INSERT INTO 'it''s' VALUES(1)", "it's"],
  ['CREATE TABLE IF NOT EXISTS t(a)', 't'],
  ['CREATE INDEX i ON t(a)', null],
])('%s concerns the table %s', (sql, table) => {
  expect(tableOf(sql)).toBe(table)
})

test.each([
  'CREATE TABLE t(a DEFAULT 0.1)',
  'CREATE TRIGGER x AFTER INSERT ON t BEGIN INSERT INTO t VALUES(0.1); END',
  'INSERT INTO t SELECT 0.1',
  'INSERT INTO "values(0.1" VALUES(1)',
])('%s stays as it is', (sql) => {
  expect(withExactLiterals(sql)).toBe(sql)
})

test('every REAL keeps its value and its type, whatever digits a server writes', () => {
  using db = new DatabaseSync(':memory:')
  db.exec('create table t (a)')
  const select = db.prepare('select a, typeof(a) as type from t')
  select.setReadBigInts(true)
  const real = fc.double({ noNaN: true, noDefaultInfinity: true })
  fc.assert(
    fc.property(real, fc.boolean(), (value, isExpanded) => {
      // libsql-server writes all digits, and whole numbers like integers
      const text = isExpanded && Number.isInteger(value) ? BigInt(value).toString() : String(value)
      const isReal = /[.e]/.test(text) || BigInt.asIntN(64, BigInt(text)) !== BigInt(text)
      db.exec(`delete from t; ${withExactLiterals(insert(text))}`)
      const [row] = select.all() as { a: number | bigint; type: string }[]
      expect([Number(row?.a), row?.type]).toEqual([value + 0, isReal ? 'real' : 'integer'])
    }),
    { numRuns: 3_000 },
  )
})

test('a blob that no server stores is rejected with its size', () => {
  const blob = (bytes: number): string => insert(`1,X'${'ab'.repeat(bytes)}'`)
  expect(() => withExactLiterals(blob(5_000_001))).toThrow(
    new RangeError('a blob of 5000001 bytes at offset 23 is too large: a value has at most 5000000 bytes'),
  )
  expect(withExactLiterals(blob(5_000_000))).toBe(blob(5_000_000))
})
