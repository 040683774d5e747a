// Run by `node --test`, as two files at the same time.
import assert from 'node:assert/strict'
import { afterEach, describe, test } from 'node:test'
import { createClient } from '@batonsql/core'
import { useDatabase } from '@batonsql/local-server/testing'

const database = useDatabase({
  template: async (config) => {
    const db = createClient(config)
    await db.execute('create table note (text)')
    await db.close()
  },
})
const urls = new Set<string>()
const insertAndCount = async (): Promise<unknown> => {
  urls.add(database.url)
  // deliberately not closed
  const db = createClient(database.config)
  await db.execute("insert into note values ('one')")
  return (await db.execute('select count(*) as count from note')).rows[0]?.['count']
}

afterEach(async () => {
  // the database is still available in later hooks
  assert.equal(new URL(database.url).pathname.startsWith('/test-'), true)
})

void test('a test with a nested test', async (t) => {
  assert.equal(await insertAndCount(), 1)
  await t.test('a nested test uses the same database', async () => {
    assert.equal(await insertAndCount(), 2)
  })
  assert.equal(await insertAndCount(), 3)
})

void describe('a suite', () => {
  void test('has a fresh database for its test', async () => {
    assert.equal(await insertAndCount(), 1)
    const unclosed = createClient(database.config)
    void unclosed
      .transaction(async (tx) => {
        await tx.execute('delete from note')
        await new Promise(() => {})
      })
      .catch(() => {})
  })
})

void test('each test used a different database', async () => {
  assert.equal(await insertAndCount(), 1)
  assert.equal(urls.size, 3)
})
