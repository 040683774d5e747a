import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { startLocalServer } from '@batonsql/local-server'
import { expect, test } from 'vitest'
import { closeOnError } from '../support/close-on-error.ts'
import { startOtherProgram } from '../support/other-program.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { close, codes, execute, pipeline, query } from './wire.ts'

const IN_USE_MESSAGE = 'the database file is open in another program'

async function readHead(path: string): Promise<string> {
  const file = await open(path)
  const { buffer } = await file.read(Buffer.alloc(15), 0, 15, 0)
  await file.close()
  return buffer.toString('latin1')
}

/** Starts a server, and waits until its idle database is a plain file again. */
async function startIdleServer() {
  const dataDirectory = createTemporaryDirectory()
  const server = await startLocalServer({ backend: 'embedded', auth: false, dataDirectory })
  return await closeOnError(server, async () => {
    const { url } = await server.createDatabase('app')
    await query(url, 'create table t(a)')
    await query(url, "insert into t values ('first')")
    const path = join(dataDirectory, 'databases', server.databaseId('app'), 'data.db')
    while ((await readHead(path)) !== 'SQLite format 3') await sleep(100)
    return { server, url, path, program: startOtherProgram(path) }
  })
}

test('while another program has the file open, the server rejects requests', async () => {
  const { server, url, path, program } = await startIdleServer()
  await using _ = server
  expect(await program.run('open')).toBe('ok')
  expect(await program.run("update t set a = 'edited'")).toBe('ok')
  for (let round = 0; round < 20; round += 1) {
    const { status, text } = await pipeline(url, [execute('insert into t values (1)'), close])
    expect([status, text]).toEqual([500, expect.stringContaining(IN_USE_MESSAGE)])
  }
  expect(await program.run("insert into t values ('added')")).toBe('ok')
  expect(await program.run('close')).toBe('ok')
  expect(await query(url, 'select a from t')).toEqual([['edited'], ['added']])
  await query(url, "insert into t values ('after')")
  // while the server has the file open, the other program is rejected
  expect(await program.run('open')).toBe('ok')
  expect(await program.run("insert into t values ('too late')")).toBe('file is not a database')
  await program.run('close')
  await server.close()
  const file = new DatabaseSync(path)
  expect(file.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' })
  expect(file.prepare('select count(*) as count from t').get()).toEqual({ count: 3 })
  file.close()
})

test('data that a killed program left in its WAL is part of the database', async () => {
  const { server, url, program } = await startIdleServer()
  await using _ = server
  await program.run('open')
  expect(await program.run("insert into t values ('in the log')")).toBe('ok')
  await program.kill()
  expect(await query(url, 'select a from t')).toEqual([['first'], ['in the log']])
  const response = await pipeline(url, [execute('pragma integrity_check'), close])
  expect(codes(response)).toEqual(['ok', 'ok'])
})
