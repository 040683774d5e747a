import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { newDatabaseId } from './database-id.ts'
import { buildExportResponse, type RunningExports } from './export-response.ts'

test('a file that cannot be removed after it was sent does not end the process', async () => {
  const path = join(createTemporaryDirectory(), 'export.db')
  writeFileSync(path, 'content')
  const running: RunningExports = new Map()
  const request = { method: 'GET', path: '/export/1', controller: new AbortController() }
  const { body } = await buildExportResponse(request, newDatabaseId(), running, async () => ({
    path,
    remove: () => Promise.reject(new Error('the directory is read-only')),
  }))
  const closed = once(body as Readable, 'close')
  expect(String(Buffer.concat(await (body as Readable).toArray()))).toBe('content')
  // vitest reports a rejection that is not handled
  await closed
  expect(running.size).toBe(0)
})
