import * as hooks from 'bun:test'
import { type Client, createClient } from '@batonsql/core'
import { useDatabase } from '@batonsql/local-server/testing'
import { addGuest } from './guests.ts'

const { afterEach, beforeEach, expect, test } = hooks

// gives each test its own database, a copy of the one that the template creates once
const database = useDatabase({
  hooks,
  async template(config) {
    const db = createClient(config)
    await db.execute('create table guest (id integer primary key, name text not null unique)')
    await db.close()
  },
})

let db: Client
beforeEach(() => {
  db = createClient(database.config)
})
afterEach(() => db.close())

test('adds a guest', async () => {
  expect(await addGuest(db, 'Ada')).toEqual({ id: 1, name: 'Ada' })
})

test('rejects a name that is taken, and does not see the guests of the other test', async () => {
  expect(await addGuest(db, 'Ada')).toEqual({ id: 1, name: 'Ada' })
  expect(await addGuest(db, 'Ada')).toBeNull()
})
