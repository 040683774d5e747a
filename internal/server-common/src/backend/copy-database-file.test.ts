import { chmodSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { copyDatabaseFile } from './copy-database-file.ts'

test('the copy of a read-only file is writable, for this user only', async () => {
  const folder = createTemporaryDirectory()
  const [from, to] = [join(folder, 'from.db'), join(folder, 'to.db')]
  for (const suffix of ['', '-wal']) {
    writeFileSync(`${from}${suffix}`, suffix === '' ? 'SQLite format 3\0' : 'frames')
    chmodSync(`${from}${suffix}`, 0o444)
  }
  await copyDatabaseFile(from, to)
  for (const suffix of ['', '-wal']) expect(statSync(`${to}${suffix}`).mode & 0o777).toBe(0o600)
})
