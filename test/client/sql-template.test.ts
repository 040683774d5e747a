import {
  coalesce,
  createClient,
  describe,
  executeMultiple,
  readRows,
  type SqlPart,
  sql,
} from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import fc from 'fast-check'
import { expect, expectTypeOf, test } from 'vitest'
import { collect } from '../support/fixtures.ts'
import { openTestClient } from '../support/test-server.ts'

const { database, db } = await openTestClient()
await executeMultiple(db, 'create table pet (id integer primary key, name text, age real)')
await db.batch([
  sql`insert into pet values (${1}, ${"Robert'); drop table pet; --"}, ${2})`,
  sql`insert into pet values (${2 ** 53}, ${'Ada'}, ${null})`,
])

interface Pet {
  id: number | bigint
  name: string
}

test('a template is accepted wherever a statement is', async () => {
  const query = sql`select id, name from pet where id = ${1}`
  const expected = [{ id: 1, name: "Robert'); drop table pet; --" }]
  const { rows } = await db.execute<Pet>(query)
  expectTypeOf(rows).toEqualTypeOf<Pet[]>()
  expect(rows).toEqual(expected)
  const [first, second] = await db.batch<[Pet, { n: number }]>([query, sql`select ${7} as n`])
  expect([first.rows, second.rows]).toEqual([expected, [{ n: 7 }]])
  await db.transaction(async (tx) => {
    expect((await tx.execute<Pet>(query)).rows).toEqual(expected)
    expect((await tx.batch([query]))[0].rows).toEqual(expected)
  })
  const stream = openStream(db)
  expect((await stream.execute(query)).rows).toEqual(expected)
  await stream.close()
  expect(await collect(readRows(db, query))).toEqual(expected)
})

test('arguments are not given twice, and only statements may be templates', async () => {
  const query = sql`select id from pet where id = ${1}`
  const twice = 'the statement already has arguments'
  await expect(db.execute(query, [99])).rejects.toThrow(twice)
  expect(() => readRows(db, query, [99])).toThrow(twice)
  await db.transaction(async (tx) => {
    await expect(tx.execute(query, [99])).rejects.toThrow(twice)
    expect(() => readRows(tx, query, [99])).toThrow(twice)
  })
  await using stream = openStream(db)
  await expect(stream.execute(query, [99])).rejects.toThrow(twice)
  await using coalescing = createClient({ ...database.config, coalesce })
  await expect(coalescing.execute(query, [99])).rejects.toThrow(twice)
  const notText = /^expected SQL as a string, not a value of type SqlFragment/
  await expect(executeMultiple(db, query as never)).rejects.toThrow(notText)
  await expect(describe(db, query as never)).rejects.toThrow(notText)
})

test('conditions, lists and names are combined', async () => {
  const ids = [1, 2 ** 53, 99]
  const conditions = [sql`id in (${sql.join(ids)})`, sql`age is not ${2}`]
  const { rows } = await db.execute<Pet>(
    sql`select * from ${sql.identifier('main', 'pet')} where ${sql.join(conditions, sql` and `)}
        order by ${sql.identifier('name')} ${sql`desc`}`,
  )
  expect(rows.map(({ name }) => name)).toEqual(['Ada'])
  expect((await db.execute(sql`select * from pet where id in (${sql.join([])})`)).rows).toEqual([])
})

test('a name that does not exist is an error, not a string', async () => {
  await expect(db.execute(sql`select ${sql.identifier('nmae')} from pet`)).rejects.toThrow(/no such column/)
})

test('handwritten placeholders are rejected by the server', async () => {
  await expect(db.execute(sql`select ?, ${1}`)).rejects.toThrow(/parameter 2 not found/)
  await expect(db.execute(sql`select '${1}'`)).rejects.toThrow(/too many parameters/)
})

test('all names and values arrive unchanged', async () => {
  const names = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
    .filter((name) => !name.includes('\0'))
  const values: fc.Arbitrary<string | number> = fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer())
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.tuple(names, values), { minLength: 1, maxLength: 8, selector: ([name]) => name }),
      async (pairs) => {
        const columns: SqlPart[] = pairs.map(([name, value]) => sql`${value} as ${sql.identifier(name)}`)
        const { columns: names, rows } = await db.execute(sql`select ${sql.join(columns)}`, undefined, {
          rowMode: 'array',
        })
        expect(names).toEqual(pairs.map(([name]) => name))
        expect(rows).toEqual([pairs.map(([, value]) => value)])
      },
    ),
    { numRuns: 40 },
  )
})
