import { type Client, createClient } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { type TestDatabase, useDatabase } from '@batonsql/local-server/testing'
import { sql } from 'drizzle-orm'
import { Kysely } from 'kysely'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { expectNoStall } from '../../support/no-stall.ts'

let migrations = 0
async function migrate(config: TestDatabase['config']): Promise<void> {
  migrations += 1
  const db = createClient(config)
  await db.batch(['create table note (text)', "insert into note values ('from the template')"])
  await db.close()
}

const selectNotes = 'select text from note'
const insertNote = "insert into note values ('of a test')"
function connect({ config }: TestDatabase, onFinished = onTestFinished): Client {
  const db = createClient(config)
  onFinished(() => db.close())
  return db
}

describe('a database for each test', () => {
  const database = useDatabase({ template: migrate })
  const urls = new Set<string>()
  beforeEach(() => {
    urls.add(database.url)
  })

  test.each([1, 2])('starts as a copy of the template, regardless of other tests: %i', async () => {
    const db = connect(database)
    expect((await db.execute(selectNotes)).rows).toEqual([{ text: 'from the template' }])
    await db.execute(insertNote)
    await db.execute('drop table note')
  })

  test('works with Kysely', async () => {
    const db = new Kysely<{ note: { text: string } }>({ dialect: new BatonDialect(database.config) })
    onTestFinished(() => db.destroy())
    expect(await db.selectFrom('note').selectAll().execute()).toEqual([{ text: 'from the template' }])
  })

  test('works with Drizzle', async () => {
    const db = drizzle({ connection: database.config })
    onTestFinished(() => db.$client.close())
    expect(await db.all(sql.raw(selectNotes))).toEqual([{ text: 'from the template' }])
  })

  test('can end while a transaction still holds the write lock', async () => {
    const abandonedClient = createClient(database.config)
    void abandonedClient
      .transaction(async (tx) => {
        await tx.execute(insertNote)
        await new Promise(() => {})
      })
      .catch(() => {})
    await expect.poll(async () => await tryWrite(database)).toMatch(/no response .* within 100 ms/)
  })

  test('does not wait for operations left open by the previous test', async () => {
    await expectNoStall(() => connect(database).execute(insertNote))
  })

  test('was a different database each time, with a single migration', () => {
    expect(urls.size).toBe(7)
    expect(migrations).toBe(1)
  })
})

/** Writes with a short timeout. @returns the error, or `acquired` */
async function tryWrite({ config }: TestDatabase): Promise<string> {
  const db = createClient(config)
  return await db.execute(insertNote, [], { timeoutMs: 100 }).then(
    () => 'acquired',
    (error: unknown) => String(error),
  )
}

describe('a database for the file', () => {
  const database = useDatabase({ template: migrate, scope: 'file' })

  test('is shared by tests', async () => {
    await connect(database).execute(insertNote)
  })

  test.concurrent.for([1, 2])(
    'is also shared by concurrent tests: %i',
    async (_number, { onTestFinished: onThisFinished }) => {
      expect((await connect(database, onThisFinished).execute(selectNotes)).rows).toHaveLength(2)
    },
  )
})

describe('without a template', () => {
  const database = useDatabase()

  test('the database is empty', async () => {
    expect((await connect(database).execute('select * from sqlite_schema')).rows).toEqual([])
  })
})
