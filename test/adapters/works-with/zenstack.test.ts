import { BatonDialect, isForeignKeyViolation, isUniqueViolation } from '@batonsql/kysely-dialect'
import { ZenStackClient } from '@zenstackhq/orm'
import {
  type AttributeApplication,
  ExpressionUtils,
  type FieldDefault,
  type SchemaDef,
} from '@zenstackhq/orm/schema'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestServer, type TestDatabase } from '../../support/test-server.ts'

// The output of `zen generate` for:
//
//   model Team   { id Int @id @default(autoincrement()); name String @unique; founded DateTime; budget BigInt?
//                  players Player[] }
//   model Player { id Int @id @default(autoincrement()); name String; captain Boolean @default(false); teamId Int
//                  team Team @relation(fields: [teamId], references: [id], onDelete: Cascade) }

const autoincrement = ExpressionUtils.call('autoincrement')
const id = {
  name: 'id',
  type: 'Int',
  id: true,
  attributes: [
    { name: '@id' },
    { name: '@default', args: [{ name: 'value', value: autoincrement }] },
  ] as readonly AttributeApplication[],
  default: autoincrement as FieldDefault,
} as const

class SchemaType implements SchemaDef {
  provider = { type: 'sqlite' } as const
  models = {
    Team: {
      name: 'Team',
      fields: {
        id,
        name: {
          name: 'name',
          type: 'String',
          unique: true,
          attributes: [{ name: '@unique' }] as readonly AttributeApplication[],
        },
        founded: { name: 'founded', type: 'DateTime' },
        budget: { name: 'budget', type: 'BigInt', optional: true },
        players: { name: 'players', type: 'Player', array: true, relation: { opposite: 'team' } },
      },
      idFields: ['id'],
      uniqueFields: { id: { type: 'Int' }, name: { type: 'String' } },
    },
    Player: {
      name: 'Player',
      fields: {
        id,
        name: { name: 'name', type: 'String' },
        captain: { name: 'captain', type: 'Boolean', default: false as FieldDefault },
        team: {
          name: 'team',
          type: 'Team',
          relation: { opposite: 'players', fields: ['teamId'], references: ['id'], onDelete: 'Cascade' },
        },
        teamId: { name: 'teamId', type: 'Int', foreignKeyFor: ['team'] as readonly string[] },
      },
      idFields: ['id'],
      uniqueFields: { id: { type: 'Int' } },
    },
  } as const
  plugins = {}
}

const open = (config: TestDatabase['config']) =>
  new ZenStackClient(new SchemaType(), { dialect: new BatonDialect(config) })
let db: ReturnType<typeof open>
beforeAll(async () => {
  const { config } = await (await openTestServer()).createDatabase()
  db = open(config)
  await db.$pushSchema()
})
afterAll(() => db.$disconnect())

const founded = new Date(1_700_000_000_000)

test('supports nested creates, relations, filters, updates and counts', async () => {
  const created = await db.team.create({
    data: {
      name: 'Reds',
      founded,
      budget: 9_007_199_254_740_993n,
      players: { create: [{ name: 'Ada', captain: true }, { name: 'Grace' }] },
    },
    include: { players: { orderBy: { name: 'asc' } } },
  })
  expect(created).toMatchObject({
    name: 'Reds',
    founded,
    budget: 9_007_199_254_740_993n,
    players: [
      { name: 'Ada', captain: true },
      { name: 'Grace', captain: false },
    ],
  })
  const captains = await db.player.findMany({
    where: { captain: true, team: { name: 'Reds' } },
    include: { team: true },
  })
  expect(captains).toMatchObject([{ name: 'Ada', team: { name: 'Reds', founded } }])
  const updated = await db.player.updateMany({ where: { teamId: created.id }, data: { captain: false } })
  expect(updated.count).toBe(2)
  expect(await db.player.count({ where: { captain: true } })).toBe(0)
})

test('the error of a constraint violation has its kind', async () => {
  const duplicate = db.team.create({ data: { name: 'Reds', founded } })
  const violation: unknown = await duplicate.catch((error: unknown) => error)
  expect(isUniqueViolation(violation)).toBe(true)
  const orphan: unknown = await db.player
    .create({ data: { name: 'Nobody', teamId: 99 } })
    .catch((error: unknown) => error)
  expect(isForeignKeyViolation(orphan)).toBe(true)
})

test('a transaction is all or nothing', async () => {
  const countBefore = await db.team.count()
  const transaction = db.$transaction(async (tx) => {
    await tx.team.create({ data: { name: 'Blues', founded } })
    throw new RangeError('on purpose')
  })
  await expect(transaction).rejects.toThrow(RangeError)
  expect(await db.team.count()).toBe(countBefore)
  await db.$transaction(async (tx) => {
    const { id: teamId } = await tx.team.create({ data: { name: 'Greens', founded } })
    await tx.player.create({ data: { name: 'Mary', teamId } })
  })
  expect(await db.player.findFirst({ where: { name: 'Mary' }, include: { team: true } })).toMatchObject({
    team: { name: 'Greens' },
  })
})

test('deleting a team also deletes its players', async () => {
  await db.team.delete({ where: { name: 'Reds' } })
  expect((await db.player.findMany()).map(({ name }) => name)).toEqual(['Mary'])
})
