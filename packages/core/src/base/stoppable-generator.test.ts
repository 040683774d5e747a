import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { scripted } from '../../test-support/scripted-server.ts'
import { dump } from '../backup/dump.ts'
import { exportFile } from '../backup/export-file.ts'
import type { Client } from '../client/client.ts'

/** Readers of a response, with the part of it that is one item. */
const READERS: readonly [name: string, start: string, open: (db: Client) => ReadableStream<unknown>][] = [
  ['dump().bytes()', 'PRAGMA foreign_keys=OFF;\nBEGIN', (db) => dump(db).bytes()],
  ['dump()', 'PRAGMA foreign_keys=OFF;\nBEGIN', (db) => ReadableStream.from(dump(db))],
  ['exportFile()', 'SQLite format 3\u0000', (db) => ReadableStream.from(exportFile(db))],
]

test.each(READERS)('%s can be canceled while the server sends nothing', async (_, start, open) => {
  const disconnected = Promise.withResolvers<void>()
  const { db } = await scripted((_request, response) => {
    void once(response, 'close').then(() => disconnected.resolve())
    response.write(start)
  })
  const reader = open(db).getReader()
  expect((await reader.read()).done).toBe(false)
  const pending = reader.read()
  // a stream asks for its next item later
  await nextTurn()
  await reader.cancel()
  expect((await pending).done).toBe(true)
  await disconnected.promise
  // nothing is pending
  await db.close()
})
