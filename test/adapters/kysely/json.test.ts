import {
  BatonDialect,
  ExactJSONResultsPlugin,
  jsonArrayFrom,
  jsonBuildObject,
  jsonObjectFrom,
} from '@batonsql/kysely-dialect'
import * as fc from 'fast-check'
import { CamelCasePlugin, Kysely, type RawBuilder, sql } from 'kysely'
import * as kyselyHelpers from 'kysely/helpers/sqlite'
import { afterAll, beforeAll, beforeEach, expect, expectTypeOf, test } from 'vitest'
import { openTestServer } from '../../support/test-server.ts'

interface Database {
  owner: { id: number; name: string }
  pet: { id: number; owner_id: number; value: unknown }
}

const server = await openTestServer()
const { config } = await server.createDatabase()
const db = new Kysely<Database>({
  dialect: new BatonDialect(config),
  plugins: [new ExactJSONResultsPlugin()],
})
afterAll(() => db.destroy())

beforeAll(async () => {
  await db.schema.createTable('owner').addColumn('id', 'integer').addColumn('name', 'text').execute()
  await sql`create table pet (id integer primary key, owner_id integer, value any)`.execute(db)
  await db.insertInto('owner').values({ id: 1, name: '[not JSON' }).execute()
})
beforeEach(async () => {
  await db.deleteFrom('pet').execute()
})

const INTEGERS = [9007199254740993n, -9223372036854775808n, 9223372036854775807n, 0n, -1n]
const REALS = [0.30000000000000004, 5e-324, Number.MAX_VALUE, -1 / 3, 123456789012345680, 2 ** 63, 1e21]

/** The values of the pets, read in nested rows in each way. */
async function readNested(): Promise<unknown[]> {
  const pets = db.selectFrom('pet').orderBy('pet.id')
  const [row] = await db
    .selectFrom('owner')
    .select((eb) => [
      jsonArrayFrom(pets.select('value')).as('columns'),
      jsonArrayFrom(pets.select('pet.value as aliased')).as('aliases'),
      jsonArrayFrom(pets.select(sql`coalesce(value, null)`.as('computed'))).as('expressions'),
      jsonArrayFrom(
        eb
          .selectFrom('owner as inner')
          .select((inner) =>
            jsonArrayFrom(pets.select('value').whereRef('owner_id', '=', inner.ref('inner.id'))).as('pets'),
          ),
      ).as('nested'),
      jsonArrayFrom(
        pets.select((inner) =>
          jsonObjectFrom(
            inner.selectFrom('pet as same').select('value').whereRef('same.id', '=', 'pet.id'),
          ).as('same'),
        ),
      ).as('objects'),
      jsonArrayFrom(
        pets.select((inner) =>
          jsonBuildObject({ value: inner.ref('value'), deep: jsonBuildObject({ value: sql`+value` }) }).as(
            'built',
          ),
        ),
      ).as('built'),
    ])
    .execute()
  return [
    row?.columns.map(({ value }) => value),
    row?.aliases.map(({ aliased }) => aliased),
    row?.expressions.map(({ computed }) => computed),
    row?.nested[0]?.pets.map(({ value }) => value),
    row?.objects.map(({ same }) => same?.value),
    row?.built.map(({ built }) => built.value),
    row?.built.map(({ built }) => built.deep.value),
  ]
}

test('numbers in nested rows are as exact as in ordinary rows', async () => {
  const property = fc.asyncProperty(
    fc.array(
      fc.oneof(
        fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.constantFrom(...INTEGERS, ...REALS),
      ),
      { minLength: 1, maxLength: 20 },
    ),
    async (values) => {
      await db.deleteFrom('pet').execute()
      await db
        .insertInto('pet')
        .values(values.map((value, id) => ({ id, owner_id: 1, value })))
        .execute()
      const rows = await db.selectFrom('pet').select('value').orderBy('id').execute()
      const expected = rows.map(({ value }) => value)
      for (const nested of await readNested()) expect(nested).toEqual(expected)
    },
  )
  await fc.assert(property, { numRuns: 25, examples: [[[...INTEGERS, ...REALS]]] })
})

test('null, text and infinity keep their values; a computed value is evaluated once', async () => {
  await sql`insert into pet values (1, 1, null), (2, 1, '"quoted" text'), (3, 1, '[not JSON]'), (4, 1, 9e999)`.execute(
    db,
  )
  const expected = [null, '"quoted" text', '[not JSON]', Number.POSITIVE_INFINITY]
  for (const nested of await readNested()) expect(nested).toEqual(expected)
  const random: RawBuilder<number> = sql`random() / 1e10`
  const { values } = await db
    .selectNoFrom(jsonBuildObject({ a: random, b: sql<number>`0.1 + 0.2` }).as('values'))
    .executeTakeFirstOrThrow()
  expect([typeof values.a, values.b]).toEqual(['number', 0.30000000000000004])
})

test('names may contain dots and quotes, and other plugins apply', async () => {
  const camelDb = new Kysely<{ pet: { id: number; ownerId: number } }>({
    dialect: new BatonDialect(config),
    plugins: [new ExactJSONResultsPlugin(), new CamelCasePlugin()],
  })
  await db.insertInto('pet').values({ id: 1, owner_id: 7, value: 0.30000000000000004 }).execute()
  const query = camelDb.selectFrom('pet').select(['ownerId', sql`value`.as('a."b"')])
  const { pets, storedJson } = await camelDb
    .selectNoFrom([jsonArrayFrom(query).as('pets'), sql`'{"a_b":1}'`.as('storedJson')])
    .executeTakeFirstOrThrow()
  expect(pets).toEqual([{ ownerId: 7, 'a."b"': 0.30000000000000004 }])
  expect(storedJson).toEqual({ aB: 1 })
  await camelDb.destroy()
})

test.each([
  ['without plugins', []],
  ['if a plugin copies the nodes of a subquery', [new CamelCasePlugin()]],
])('JSON in JSON is nested, not text: %s', async (_, plugins) => {
  const pluginDb = new Kysely<Database>({ dialect: new BatonDialect(config), plugins })
  await db.insertInto('pet').values({ id: 1, owner_id: 7, value: null }).execute()
  const pets = pluginDb.selectFrom('pet').select('owner_id')
  const query = pluginDb
    .selectFrom('pet')
    .select([
      'id',
      jsonArrayFrom(pets).as('array'),
      jsonObjectFrom(pets).as('object'),
      jsonBuildObject({ array: jsonArrayFrom(pets) }).as('built'),
    ])
  const result = await pluginDb
    .withoutPlugins()
    .selectNoFrom(jsonArrayFrom(query).as('json'))
    .executeTakeFirstOrThrow()
  const row = { owner_id: 7 }
  expect(JSON.parse(result.json as unknown as string)).toEqual([
    { id: 1, array: [row], object: row, built: { array: [row] } },
  ])
  await pluginDb.destroy()
})

test('a subquery that does not name its columns is rejected', () => {
  for (const helper of [jsonArrayFrom, jsonObjectFrom])
    expect(() => helper(db.selectFrom('pet').selectAll())).toThrow('must name its columns')
})

test('the plugin parses what looks like JSON, unless shouldParse declines; a broken text stays text', async () => {
  const select = sql`select '{"a":[9007199254740993,"[1]"]}' as a, '[broken]' as b, '{"__proto__":1}' as "__proto__", 'x' as c`
  const parsed = await select.execute(db)
  expect(Object.entries(parsed.rows[0] as object)).toEqual([
    ['a', { a: [9007199254740993n, [1]] }],
    ['b', '[broken]'],
    ['__proto__', JSON.parse('{"__proto__":1}')],
    ['c', 'x'],
  ])
  const shouldParse = (text: string, column: string): boolean => column === 'a' && text !== '[1]'
  const plugin = new ExactJSONResultsPlugin({ shouldParse })
  const declined = await select.withPlugin(plugin).execute(db.withoutPlugins())
  expect(Object.entries(declined.rows[0] as object)).toEqual([
    ['a', { a: [9007199254740993n, '[1]'] }],
    ['b', '[broken]'],
    ['__proto__', '{"__proto__":1}'],
    ['c', 'x'],
  ])
})

test('an error of shouldParse rejects the query, also for a nested text', async () => {
  for (const failure of [new TypeError('unexpected'), new SyntaxError('unexpected')]) {
    const shouldParse = (text: string): boolean => {
      if (text === '[1]') throw failure
      return true
    }
    const plugin = new ExactJSONResultsPlugin({ shouldParse })
    for (const text of ['[1]', '{"a":"[1]"}', JSON.stringify([JSON.stringify(['[1]'])])]) {
      const query = sql`select ${text} as a`.withPlugin(plugin)
      await expect(query.execute(db.withoutPlugins())).rejects.toBe(failure)
    }
  }
})

test('JSON that is nested too deeply stays text', async () => {
  const text = '['.repeat(200_000) + ']'.repeat(200_000)
  expect((await sql`select ${text} as a`.execute(db)).rows).toEqual([{ a: text }])
})

test('the results have the types of Kysely’s own helpers', () => {
  const pets = db.selectFrom('pet').select(['id', 'value'])
  expectTypeOf(jsonArrayFrom(pets)).toEqualTypeOf(kyselyHelpers.jsonArrayFrom(pets))
  expectTypeOf(jsonObjectFrom(pets)).toEqualTypeOf(kyselyHelpers.jsonObjectFrom(pets))
  const object = { a: sql<number>`1`, b: sql<bigint | null>`2` }
  expectTypeOf(jsonBuildObject(object)).toEqualTypeOf(kyselyHelpers.jsonBuildObject(object))
})

test.each([{ shouldparse: () => false }, { shouldParse: true }, new Map()])(
  'the plugin rejects the options %o',
  (options) => {
    expect(() => new ExactJSONResultsPlugin(options as never)).toThrow(
      /unknown option shouldparse|shouldParse must be function|expected options/,
    )
  },
)
