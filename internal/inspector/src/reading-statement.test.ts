import { expect, test } from 'vitest'
import { phrases } from '../../../test/support/words.ts'
import { isReadingStatement } from './reading-statement.ts'

test.each([
  'select 1',
  ' ;; /* a */ -- b\n SELECT 1',
  'values (1)',
  'with a as (select 1) delete from t where id in a',
  'explain select 1',
  'explain/**/query--\nplan/**/delete from t',
  'pragma user_version',
  'pragma main.table_info("t")',
  'pragma integrity_check;',
  'select(1)',
  '',
  '-- nothing',
])('%s can be prepared without effect', (sql) => {
  expect(isReadingStatement(sql)).toBe(true)
})

test.each([
  'drop index v',
  '/* select */ drop index v',
  ';drop index v',
  '-- select\rselect 1\ndrop index v',
  ...phrases(`
    explain drop index v | explain query plan drop table t
    explain /* select */ create index v on t(libsql_vector_idx(e)) | explain explain select 1
    alter table t rename to u | reindex v | selection | begin immediate | commit | attach 'a' as b
    pragma journal_mode = delete | pragma user_version(7) | pragma user_version /* a */ = 7
    pragma main.foreign_keys = off
  `),
])('%s may not be prepared', (sql) => {
  expect(isReadingStatement(sql)).toBe(false)
})

test('long text is scanned in linear time', () => {
  expect(isReadingStatement(`${'/**/'.repeat(100_000)}${';'.repeat(100_000)}drop index v`)).toBe(false)
  expect(isReadingStatement(`pragma${' '.repeat(200_000)}x${' '.repeat(200_000)}=`)).toBe(false)
})
