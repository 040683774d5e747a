import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { expect, test } from 'vitest'
import { complete } from './prompt-completer.ts'

test('completes the names of the user that need no quotation marks, although a view is broken', async () => {
  await using server = await startLocalServer()
  await using db = createClient(await server.createDatabase('names'))
  await db.batch([
    'create table person (person_id integer primary key, "person name" text, person_age as (person_id + 1))',
    'create view persons as select 1 as person_view',
    'create virtual table person_search using fts5(person_text)',
    'create table libsql_notes (at f32_blob(2))',
    'create index near on libsql_notes (libsql_vector_idx(at))',
  ])
  const names = ['person', 'person_age', 'person_id', 'person_search', 'person_text']
  expect(await complete(db, 'select Pers')).toEqual([[...names, 'person_view', 'persons'].toSorted(), 'Pers'])
  await db.batch(['create table gone (a)', 'create view broken as select * from gone', 'drop table gone'])
  const tableNames = ['person', 'person_age', 'person_id', 'person_search', 'persons']
  expect(await complete(db, 'select pers')).toEqual([tableNames, 'pers'])
  expect(await complete(db, 'select libsql')).toEqual([['libsql_notes'], 'libsql'])
  expect(await complete(db, '  .tab')).toEqual([['.tables'], '  .tab'])
  expect(await complete(db, 'select ')).toEqual([[], ''])
})
