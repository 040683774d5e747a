import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { scripted, status } from '../../test-support/scripted-server.ts'
import { HttpError, ProtocolError, TransportError } from '../base/errors.ts'
import type { Client } from '../client/client.ts'
import { exportFile } from './export-file.ts'

const FILE = `SQLite format 3\u0000${'x'.repeat(4_080)}`

const read = async (db: Client): Promise<string> => {
  let text = ''
  for await (const part of exportFile(db)) text += Buffer.from(part).toString('latin1')
  return text
}

test('streams the file, however it is divided into chunks', async () => {
  const writePieces = async (response: ServerResponse): Promise<void> => {
    for (const character of FILE.slice(0, 20)) {
      response.write(character)
      await new Promise(setImmediate)
    }
    response.end(FILE.slice(20))
  }
  const { db, received } = await scripted((_, response) => void writePieces(response))
  expect(await read(db)).toBe(FILE)
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

test('a truncated response, and a status other than 200, are errors', async () => {
  const truncated = await scripted((_, response) => {
    response.setHeader('content-length', FILE.length)
    response.write(FILE.slice(0, 100), () => response.destroy())
  })
  await expect(read(truncated.db)).rejects.toThrow(TransportError)
  const missing = await scripted(status(404, 'no such database'))
  await expect(read(missing.db)).rejects.toThrow(HttpError)
})

test('the signal ends the export, and the client can be closed', async () => {
  const controller = new AbortController()
  const { db } = await scripted((_, response) => response.write(FILE.slice(0, 100)))
  const parts = exportFile(db, { signal: controller.signal })
  expect((await parts.next()).done).toBe(false)
  controller.abort(new Error('enough'))
  await expect(parts.next()).rejects.toThrow('enough')
  await db.close()
  await expect(read(db)).rejects.toMatchObject({ code: 'CLOSED' })
})
