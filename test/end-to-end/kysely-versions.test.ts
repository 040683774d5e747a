import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openTestServer } from '../targets/test-server.ts'

const exercise = fileURLToPath(new URL('../fixtures/kysely-versions/exercise.ts', import.meta.url))

test.each(['kysely-0.28', 'kysely', 'kysely-0.30'])('the dialect works with %s', async (version) => {
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
    failures: [],
    migrations: 1,
    lost: 'TRANSACTION_LOST',
    thrown: 'mine',
    streamed: ['a', 'b', 'c'],
    batch: [[{ name: 'a' }], { rows: [{ count: 3 }] }],
    tables: ['item'],
  })
})
