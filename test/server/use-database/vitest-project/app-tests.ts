import { createClient } from '@batonsql/core'
import { useDatabase } from '@batonsql/local-server/testing'
import { beforeAll, expect, test } from 'vitest'
import type * as App from './app.ts'

/** Tests the recipe from the local server's docs/testing.md. More than one file runs these tests. */
export function testApp(): void {
  const database = useDatabase({
    scope: 'file',
    template: async (config) => {
      const db = createClient(config)
      await db.execute('create table note (text)')
      await db.close()
    },
  })
  let app: typeof App
  beforeAll(async () => {
    process.env['DATABASE_URL'] = database.url
    app = await import('./app.ts')
  })

  test('the client of the application uses the database of the file', async () => {
    await app.addNote('one')
    expect(await app.readNotes()).toEqual([{ text: 'one' }])
  })
}
