import { readdir, readFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { createPlatformClient } from '@batonsql/platform'
import { expect, test } from 'vitest'
import { serveHttp } from '../../../test/support/serve-http.ts'
import { createTemporaryDirectory } from '../../../test/support/temporary-directory.ts'
import { exportOnline, type RemoteDatabase } from './export-online.ts'

const [FIRST_HALF, SECOND_HALF] = ['SQLite format 3\u0000'.padEnd(64, '1'), '2'.repeat(64)]

/** Starts a server that sends half of an export, and the rest only when the test sends it. */
async function startHeldExport(): Promise<{ database: RemoteDatabase; response: Promise<ServerResponse> }> {
  let resolve: (response: ServerResponse) => void = () => {}
  const response = new Promise<ServerResponse>((done) => {
    resolve = done
  })
  const { url } = await serveHttp((request, outgoing) => {
    if (request.url === '/export/1') {
      outgoing.writeHead(200, { 'content-length': FIRST_HALF.length * 2 }).write(FIRST_HALF)
      resolve(outgoing)
    } else outgoing.end('{"jwt":"token"}')
  })
  const platform = createPlatformClient({ url, token: 'token', organization: 'own' })
  const { host: hostname } = new URL(url)
  return { database: { platform, organization: 'own', name: 'app', hostname }, response }
}

async function createFolder(): Promise<string> {
  const directory = createTemporaryDirectory()
  return directory
}

test('a file gets its final name only when it is complete', async () => {
  const directory = await createFolder()
  const { database, response } = await startHeldExport()
  const exported = exportOnline(database, join(directory, 'app.db'), new AbortController().signal)
  const heldResponse = await response
  await expect.poll(() => readdir(directory)).toEqual([expect.stringMatching(/^app\.db\..*unfinished$/)])
  heldResponse.end(SECOND_HALF)
  await exported
  expect(await readdir(directory)).toEqual(['app.db'])
  expect(await readFile(join(directory, 'app.db'), 'utf8')).toBe(FIRST_HALF + SECOND_HALF)
})

test.each(['aborted', 'truncated'])('an export that is %s leaves no file', async (failure) => {
  const directory = await createFolder()
  const controller = new AbortController()
  const { database, response } = await startHeldExport()
  const exported = exportOnline(database, join(directory, 'app.db'), controller.signal)
  const rejected = expect(exported).rejects.toThrow()
  const heldResponse = await response
  if (failure === 'aborted') controller.abort()
  else heldResponse.destroy()
  await rejected
  expect(await readdir(directory)).toEqual([])
})
