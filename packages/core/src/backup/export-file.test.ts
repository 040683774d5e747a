import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { scripted, status } from '../../test-support/scripted-server.ts'
import { HttpError, ProtocolError, TransportError } from '../base/errors.ts'
import type { Client } from '../client/client.ts'
import { exportFile } from './export-file.ts'

/** A file of two pages. */
function createFile(pageSize: number): string {
  using db = new DatabaseSync(':memory:')
  db.exec(`pragma page_size = ${pageSize}; create table t (a)`)
  const folder = createTemporaryDirectory()
  db.prepare('vacuum into ?').run(join(folder, 'a.db'))
  return readFileSync(join(folder, 'a.db'), 'latin1')
}

const read = async (db: Client): Promise<string> => {
  let text = ''
  for await (const part of exportFile(db)) text += Buffer.from(part).toString('latin1')
  return text
}

test('streams the file, however it is divided into chunks', async () => {
  const file = createFile(512)
  const writePieces = async (response: ServerResponse): Promise<void> => {
    for (const character of file.slice(0, 120)) {
      response.write(character, 'latin1')
      await new Promise(setImmediate)
    }
    response.end(file.slice(120), 'latin1')
  }
  const { db, received } = await scripted((_, response) => void writePieces(response))
  expect(await read(db)).toBe(file)
  expect(received.map(({ url }) => url)).toEqual(['/export/1'])
})

test('an empty database may be an empty file', async () => {
  const { db } = await scripted((_, response) => response.end())
  expect(await read(db)).toBe('')
})

test.each(['<!doctype html><title>Sign in</title>', 'SQLite format 2', 'SQLite'])(
  '%j is not an SQLite file',
  async (text) => {
    const { db } = await scripted((_, response) => response.end(text))
    await expect(read(db)).rejects.toThrow(ProtocolError)
  },
)

test.each([512, 4_096, 65_536])('a file that ends early is an error: pages of %d bytes', async (pageSize) => {
  const file = createFile(pageSize)
  for (const length of [16, 99, 100, pageSize, 2 * pageSize - 1]) {
    const { db } = await scripted((_, response) => response.end(file.slice(0, length), 'latin1'))
    await expect(read(db)).rejects.toThrow('the SQLite file was truncated')
  }
  const { db } = await scripted((_, response) => response.end(file, 'latin1'))
  expect(await read(db)).toBe(file)
})

test('a truncated response, and a status other than 200, are errors', async () => {
  const truncated = await scripted((_, response) => {
    response.setHeader('content-length', 1_024)
    response.write(createFile(512).slice(0, 100), 'latin1', () => response.destroy())
  })
  await expect(read(truncated.db)).rejects.toThrow(TransportError)
  const missing = await scripted(status(404, 'no such database'))
  await expect(read(missing.db)).rejects.toThrow(HttpError)
})

test('the signal ends the export, and the client can be closed', async () => {
  const controller = new AbortController()
  const { db } = await scripted((_, response) => response.write('SQLite format 3\u0000'))
  const parts = exportFile(db, { signal: controller.signal })
  expect((await parts.next()).done).toBe(false)
  controller.abort(new Error('enough'))
  await expect(parts.next()).rejects.toThrow('enough')
  await db.close()
  await expect(read(db)).rejects.toMatchObject({ code: 'CLOSED' })
})
