import { BatonDialect } from '@batonsql/kysely-dialect'
import { Collection, defineEntity, MikroORM, p, UniqueConstraintViolationException } from '@mikro-orm/core'
import { SqliteDriver } from '@mikro-orm/sql'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openTestServer, type TestDatabase } from '../../../support/test-server.ts'

// MikroORM with our dialect: its schema generator, relations, savepoints and 64-bit integers.

const AuthorSchema = defineEntity({
  name: 'Author',
  properties: {
    id: p.integer().primary(),
    name: p.string().unique(),
    balance: p.bigint('bigint').default(0),
    joined: p.datetime(),
    settings: p.json<{ theme: string }>().nullable(),
    portrait: p.blob().nullable(),
    books: () => p.oneToMany(Book).mappedBy('author').orphanRemoval(),
  },
})
class Author extends AuthorSchema.class {}
AuthorSchema.setClass(Author)

const BookSchema = defineEntity({
  name: 'Book',
  properties: {
    id: p.integer().primary(),
    title: p.string(),
    author: () => p.manyToOne(Author).deleteRule('cascade'),
    tags: () => p.manyToMany(Tag),
  },
})
class Book extends BookSchema.class {}
BookSchema.setClass(Book)

const TagSchema = defineEntity({ name: 'Tag', properties: { name: p.string().primary() } })
class Tag extends TagSchema.class {}
TagSchema.setClass(Tag)

const JOINED_AT = new Date('2026-03-29T10:00:00.123Z')

describe('MikroORM', () => {
  let database: TestDatabase
  let orm: MikroORM<SqliteDriver>
  const open = () =>
    MikroORM.init({
      driver: SqliteDriver,
      dbName: 'unused',
      entities: [Author, Book, Tag],
      driverOptions: new BatonDialect(database.config),
    })

  beforeAll(async () => {
    database = await (await openTestServer()).createDatabase()
    orm = await open()
  })
  afterAll(() => orm.close())
  beforeEach(() => orm.schema.refresh())

  const authorData = (name: string) => ({ name, joined: JOINED_AT })

  test('the schema generator creates a schema, then finds no differences, and can update it', async () => {
    expect(await orm.schema.getUpdateSchemaSQL()).toBe('')
    await orm.em.execute('alter table book drop column title')
    expect(await orm.schema.getUpdateSchemaSQL()).toContain('add column `title`')
    await orm.schema.update()
    expect(await orm.schema.getUpdateSchemaSQL()).toBe('')
  })

  test('values are returned unchanged', async () => {
    const em = orm.em.fork()
    const settings = { theme: 'dark' }
    em.create(Author, { ...authorData('Ada'), settings, portrait: Buffer.from([0, 255]) })
    await em.flush()
    const ada = await orm.em.fork().findOneOrFail(Author, { joined: JOINED_AT })
    expect(ada.joined).toEqual(JOINED_AT)
    expect(ada.settings).toEqual(settings)
    expect([...(ada.portrait ?? [])]).toEqual([0, 255])
  })

  test('relations are written in one flush, loaded, used in filters, and removed', async () => {
    const em = orm.em.fork()
    const ada = em.create(Author, authorData('Ada'))
    const poetry = em.create(Tag, { name: 'poetry' })
    em.create(Book, { title: 'Notes', author: ada, tags: [poetry, em.create(Tag, { name: 'maths' })] })
    em.create(Book, { title: 'Letters', author: ada, tags: [poetry] })
    await em.flush()

    for (const strategy of ['joined', 'select-in'] as const) {
      const populate = ['books.tags'] as const
      const [foundAuthor] = await orm.em.fork().findAll(Author, { populate, strategy })
      expect(foundAuthor?.books).toBeInstanceOf(Collection)
      const books = foundAuthor?.books
        .getItems()
        .map((book) => [book.title, book.tags.getIdentifiers().sort()])
      expect(books).toEqual([
        ['Notes', ['maths', 'poetry']],
        ['Letters', ['poetry']],
      ])
    }
    expect(await orm.em.fork().count(Author, { books: { tags: { name: 'maths' } } })).toBe(1)
    expect(await orm.em.fork().count(Author, { books: { tags: { name: 'none' } } })).toBe(0)

    const fork = orm.em.fork()
    const loaded = await fork.findOneOrFail(Author, { name: 'Ada' }, { populate: ['books'] })
    const [first] = loaded.books.getItems()
    if (first !== undefined) loaded.books.remove(first)
    await fork.flush()
    expect(await orm.em.fork().count(Book)).toBe(1)
    fork.remove(loaded)
    await fork.flush()
    expect(await orm.em.fork().count(Book)).toBe(0)
  })

  test('a transaction that throws leaves nothing behind', async () => {
    const failing = orm.em.fork().transactional(async (em) => {
      em.create(Author, authorData('Ada'))
      await em.flush()
      expect(await em.count(Author)).toBe(1)
      throw new Error('changed my mind')
    })
    await expect(failing).rejects.toThrow('changed my mind')
    expect(await orm.em.fork().count(Author)).toBe(0)
  })

  test('a nested transaction is a savepoint: it undoes only its own changes', async () => {
    await orm.em.fork().transactional(async (em) => {
      em.create(Author, authorData('kept'))
      await em.flush()
      const inner = em.transactional(async (nested) => {
        nested.create(Author, authorData('undone'))
        await nested.flush()
        const innermost = nested.transactional(async (deeper) => {
          deeper.create(Author, authorData('released'))
        })
        await innermost
        expect(await nested.count(Author)).toBe(3)
        throw new Error('only this')
      })
      await expect(inner).rejects.toThrow('only this')
      await em.transactional(async (nested) => {
        nested.create(Author, authorData('also kept'))
      })
    })
    const authors = await orm.em.fork().findAll(Author, { orderBy: { name: 'asc' } })
    expect(authors.map(({ name }) => name)).toEqual(['also kept', 'kept'])
  })

  test('a violated constraint throws MikroORM’s corresponding exception', async () => {
    const em = orm.em.fork()
    em.create(Author, authorData('Ada'))
    em.create(Author, authorData('Ada'))
    await expect(em.flush()).rejects.toThrow(UniqueConstraintViolationException)
    expect(await orm.em.fork().count(Author)).toBe(0)
  })

  test.each([2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)])('%d is exact', async (balance) => {
    const em = orm.em.fork()
    em.create(Author, { ...authorData('Ada'), balance })
    await em.flush()
    const author = await orm.em.fork().findOneOrFail(Author, { balance })
    expect(author.balance).toBe(balance)
    expect(await orm.em.fork().count(Author, { balance: balance > 0n ? balance - 1n : balance + 1n })).toBe(0)
  })
})
