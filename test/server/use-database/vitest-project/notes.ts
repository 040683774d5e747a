import { createClient } from '@batonsql/core'
import { useDatabase } from '@batonsql/local-server/testing'
import { expect, test } from 'vitest'

/** Defines tests that more than one file runs. */
export function testNotes(): void {
  const database = useDatabase({
    template: async (config) => {
      const db = createClient(config)
      await db.execute('create table note (text)')
      await db.close()
    },
  })

  test.each([1, 2, 3])('a fresh database: %i', async () => {
    console.log(`process ${process.pid} uses port ${new URL(database.url).port}`)
    // deliberately not closed
    const db = createClient(database.config)
    await db.execute("insert into note values ('one')")
    expect((await db.execute('select * from note')).rows).toHaveLength(1)
  })
}
