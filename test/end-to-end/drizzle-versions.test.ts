import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openTestServer } from '../targets/test-server.ts'

const exercise = fileURLToPath(new URL('../fixtures/drizzle-versions/exercise.ts', import.meta.url))

test.each(['drizzle-orm-0.44', 'drizzle-orm'])('the driver works with %s', async (version) => {
  const server = await openTestServer()
  const { url, authToken } = await server.createDatabase()
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      '--conditions=@batonsql/source',
      '--no-warnings',
      exercise,
      version,
      url,
      ...(authToken ? [authToken] : []),
    ],
    { timeout: 25_000, env: { ...process.env, NODE_OPTIONS: '' } },
  )
  expect(JSON.parse(stdout)).toEqual({
    applied: [['0000'], []],
    joined: [{ name: 'a', post: 1 }],
    related: { name: 'a', posts: [{ id: 1, userId: 1 }] },
    batch: [[{ name: 'a' }], [[1]], expect.objectContaining({ rowsAffected: 1, lastInsertRowid: '9' })],
    big: String(2n ** 62n),
    error: ['DrizzleQueryError', true],
  })
})
