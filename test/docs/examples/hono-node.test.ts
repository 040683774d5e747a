import { once } from 'node:events'
import { createClient } from '@batonsql/core'
import { useDatabase } from '@batonsql/local-server/testing'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { createApp } from '../../../examples/hono-node/app.ts'
import { startExample } from './program.ts'

const database = useDatabase({
  template: async (config) => {
    const db = createClient(config)
    await db.execute('create table guest (id integer primary key, name text not null unique)')
    await db.close()
  },
})
let db: ReturnType<typeof createClient>
beforeEach(() => {
  db = createClient(database.config)
})
afterEach(() => db.close())

// without keep-alive, because the server would wait for the connection
const addGuest = (name: string) => ({
  method: 'POST',
  body: JSON.stringify({ name }),
  headers: { connection: 'close' },
})

test('the routes list and add guests', async () => {
  const app = createApp(db)
  const response = await app.request('/guests', addGuest('Ada'))
  expect([response.status, await response.json()]).toEqual([201, { id: 1, name: 'Ada' }])
  expect((await app.request('/guests', addGuest('Ada'))).status).toBe(409)
  expect(await (await app.request('/guests')).json()).toEqual([{ id: 1, name: 'Ada' }])
})

test('the server finishes pending work after SIGTERM', async () => {
  const { url, authToken = '' } = database.config
  const env = { DATABASE_URL: url, DATABASE_TOKEN: authToken, PORT: '0' }
  const child = startExample('hono-node', 'server.ts', [], env)
  onTestFinished(() => void child.kill('SIGKILL'))
  const closed = once(child, 'close')
  const address = String((await once(child.stdout, 'data'))[0]).trim()
  const lockHeld = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  // holds the write lock, so that the request waits for it
  const holder = db.transaction(async (tx) => {
    await tx.execute("insert into guest (name) values ('Grace')")
    lockHeld.resolve()
    await release.promise
  })
  await lockHeld.promise
  const pending = fetch(`${address}/guests`, addGuest('Ada'))
  expect(await (await fetch(`${address}/guests`)).json()).toEqual([])
  child.kill('SIGTERM')
  await expect.poll(() => fetch(`${address}/guests`).catch(() => 'refused')).toBe('refused')
  release.resolve()
  await holder
  expect((await pending).status).toBe(201)
  expect(await closed).toEqual([0, null])
  const { rows } = await db.execute('select name from guest order by id', [], { rowMode: 'array' })
  expect(rows.flat()).toEqual(['Grace', 'Ada'])
})
