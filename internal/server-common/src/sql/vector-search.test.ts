import { describe, expect, test } from 'vitest'
import { phrases } from '../../../../test/support/words.ts'
import { limitVectorSearches } from './vector-search.ts'

const bound = (rows: string): string =>
  `(SELECT iif(k BETWEEN 1 AND 100000000, k, NULL) FROM (SELECT (${rows}) AS k))`

test.each([
  'select 1',
  "select * from vector_top_k('i', '[1,2]', 1)",
  "select * from vector_top_k('i', ?, 99999999) as v join t on t.rowid = v.id",
  "select vector_top_k.id from main . Vector_Top_K('i', vector32(?, 1), 20)",
  "select * from 'vector_top_k'('i', '[1,2]', 5)",
  "insert into note values ('how vector_top_k works')",
])('does not change %j', (sql) => expect(limitVectorSearches(sql)).toBe(sql))

test.each(
  phrases(`
    0 | 00 | -1 | 100000000 | 4294967296 | 1.0 | 0x10 | ? | ?3 | :k | 1-1 | t.k | (select 0) | max(1, 2)
    case when 1 then 0 end | '5'
  `),
)('bounds the number of rows %s', (rows) => {
  const call = (third: string): string =>
    `select * from vector_top_k('i', vector32('[1,2]'), ${third}) where id > 0`
  expect(limitVectorSearches(call(rows))).toBe(call(bound(rows)))
  expect(limitVectorSearches(call(`/* , */ ${rows} -- )\n`))).toBe(call(`/* , */ ${bound(rows)} -- )\n`))
})

test('bounds nested searches, and searches in views and triggers', () => {
  expect(
    limitVectorSearches('select 1 in "vector_top_k"(a, b, (select id from [vector_top_k](c, d, ?)))'),
  ).toBe(`select 1 in "vector_top_k"(a, b, ${bound(`(select id from [vector_top_k](c, d, ${bound('?')}))`)})`)
  expect(limitVectorSearches("create view v as select * from vector_top_k('i', '[1]', 0)")).toContain(
    bound('0'),
  )
  expect(
    limitVectorSearches(
      'create trigger g after insert on t begin select 1 in vector_top_k(new.a, new.b, new.c); end',
    ),
  ).toContain(bound('new.c'))
})

describe('rejects a search whose number of rows may come from elsewhere', () => {
  test.each([
    'select * from vector_top_k where k = 0',
    'select 1 in vector_top_k',
    'select * from vector_top_k()',
    "select * from vector_top_k('i') where vector = ? and k = 0",
    "select * from vector_top_k('i', ?) where k = 0",
    "select * from vector_top_k('i', ?, ?, ?)",
    "select * from vector_top_k('i', ?, )",
    "select * from vector_top_k('i', ?, 0",
    'select * from "vector_top_k" join t using (k)',
    "select * from 'vector_top_k' v where v.k = 0",
    'select * from main.[vector_top_k] v where v.k = 0',
    'create view v as select idx, vector, k, id from vector_top_k',
    "create virtual table f using fts5(a, content='vector_top_k(1)')",
    'select * from vector_top_k(1, 2, 3), vector_top_k',
    "select (select id from vector_top_k('i', $a((x), 0) order by id, 1)",
    "select (select id from vector_top_k('i', :a((x), 0) order by id, 1)",
  ])('%j', (sql) => expect(limitVectorSearches(sql)).toMatch(/^SELECT "vector_top_k \(refused: /))
})
