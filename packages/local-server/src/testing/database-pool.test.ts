import { rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createClient } from '@batonsql/core'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { DatabasePool } from './database-pool.ts'

test.each([1, 2])('is closed after the database of test %i was created', async (count) => {
  const pool = await DatabasePool.start()
  const databases = Array.from({ length: count }, () => pool.take(null))
  const [outcomes] = await Promise.all([Promise.allSettled(databases), pool.close()])
  expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 'fulfilled'))
})

test('what was prepared for a template is removed with its file', async () => {
  const folder = createTemporaryDirectory()
  const pool = await DatabasePool.start()
  onTestFinished(() => pool.close())
  const file = join(folder, 'template.db')
  await pool.export((await pool.take(null)).name, file)
  await pool.take(file)
  const { name, address } = await pool.take(file)
  expect(name).toBe('test-3')
  const getStatus = async (): Promise<number> => {
    const url = new URL('../test-4/v2/pipeline', address.url)
    return (await fetch(url, { method: 'POST', body: '{"requests":[]}' })).status
  }
  await expect.poll(getStatus).toBe(200)
  rmSync(file)
  await pool.take(null)
  await expect.poll(getStatus).toBe(404)
})

test('a file in WAL mode is copied again when only its WAL has changed', async () => {
  const folder = createTemporaryDirectory()
  const [file, link] = [join(folder, 'template.db'), join(folder, 'link.db')]
  // open, so that nothing is checkpointed
  using program = new DatabaseSync(file)
  program.exec('pragma journal_mode = wal; create table t (a)')
  symlinkSync(file, link)
  const pool = await DatabasePool.start()
  onTestFinished(() => pool.close())
  for (const count of [0, 1, 2, 3]) {
    // the second copy was prepared when the first was taken
    const { address } = await pool.take(link)
    const db = createClient(address)
    onTestFinished(() => db.close())
    expect((await db.execute('select count(*) as count from t')).rows).toEqual([{ count }])
    program.exec('insert into t values (1)')
  }
})
