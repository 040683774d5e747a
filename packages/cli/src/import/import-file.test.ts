import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { importFile } from './import-file.ts'

test('a file that changes between its check and its import is rejected, and nothing is imported', async () => {
  await using server = await startLocalServer()
  const file = join(createTemporaryDirectory(), 'pet.csv')
  writeFileSync(file, 'id,name\n1,Tom\n')
  let requestCount = 0
  await using db = createClient({
    ...(await server.createDatabase('changing')),
    observe({ type }) {
      // the first request reads the columns of the table; the second, after the check, the progress of an earlier import
      if (type === 'request' && ++requestCount === 2) appendFileSync(file, 'a row that would be skipped\n')
    },
  })
  const output = new PassThrough().resume()
  const context = {
    input: output,
    output,
    stderr: output,
    env: {},
    commands: [],
    signal: AbortSignal.any([]),
  }
  const importing = importFile(db, { file, table: 'pet' }, context)
  await expect(importing).rejects.toThrow(`${file} was changed while it was imported\nNothing was imported.`)
  expect((await db.execute('select name from sqlite_schema')).rows).toEqual([])
})
