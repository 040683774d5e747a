import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { expect, test } from 'vitest'

test('createDatabase() returns options that a client accepts as they are', async () => {
  await using server = await startLocalServer({ auth: true })
  const db = createClient(await server.createDatabase('app'))
  expect((await db.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
  await db.close()
  expect(server.databaseId('app')).toMatch(/^[\da-f-]{36}$/)
  expect(() => server.databaseId('none')).toThrow('none')
})
