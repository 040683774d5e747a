import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, expect, test, vi } from 'vitest'
import { ENDLESS_READ } from '../end-to-end/fixtures.ts'
import { runBaton, startBaton } from '../targets/baton-command.ts'
import { Terminal, terminalProblem } from '../targets/terminal.ts'

// What of `baton sql` does not depend on the server.

const folder = await mkdtemp(join(tmpdir(), 'baton-sql-'))
afterAll(() => rm(folder, { recursive: true, force: true }))
const server = await startLocalServer()
const { url } = server
const guarded = await startLocalServer({ auth: true })
afterAll(() => Promise.all([server.close(), guarded.close()]))

test.concurrent('Ctrl-C ends it with 130', async () => {
  const before = server.requestCount('default')
  const child = startBaton(['sql', url, ENDLESS_READ])
  await vi.waitFor(() => expect(server.requestCount('default')).toBeGreaterThan(before), { timeout: 10_000 })
  child.kill('SIGINT')
  expect(await once(child, 'close')).toEqual([130, null])
})

test.concurrent('what cannot work says what to do, with the code for it', async () => {
  const wrong = async (args: readonly string[]) => {
    const { code, errors } = await runBaton(['sql', ...args])
    return `${code} ${errors}`
  }
  expect(await wrong(['http://127.0.0.1:1', 'select 1'])).toMatch(
    /^1 .*ECONNREFUSED.*\nNothing listens there/,
  )
  expect(await wrong(['ftp://127.0.0.1', 'select 1'])).toMatch(/^2 baton: url must be libsql/)
  expect(await wrong(['./app.db', 'select 1'])).toMatch(/^2 .*`baton dev --open FILE.db`/)
  expect(await wrong([url, 'select 1', '--file', 'x.sql'])).toMatch(/^2 .*not both/)
  expect(await wrong([url, '--file', join(folder, 'nowhere.sql')])).toMatch(/^2 .*ENOENT/)
  expect(await wrong([url, 'select 1', '--timeout', 'soon'])).toMatch(/^2 .*number of seconds, not soon/)
  expect(await wrong([url, ENDLESS_READ, '--timeout', '0.3'])).toMatch(/^1 baton: /)
  expect(await wrong([guarded.url, 'select 1'])).toMatch(/^1 .*HTTP 401.*\nThe database wants a token/)
  const token = await guarded.createToken('default', { access: 'read-only' })
  expect(await wrong([guarded.url, 'select 1', '--auth-token', token])).toBe('0 ')
  expect(await wrong([guarded.url, 'create table t (a)', '--auth-token', token])).toMatch(
    /^1 .*HTTP 403.*Write permission/,
  )
})

test.concurrent('the prompt says when the time of a transaction is over', { timeout: 60_000 }, async ({
  skip,
}) => {
  if (terminalProblem !== null) skip(terminalProblem)
  const { url: own } = await server.createDatabase('prompt')
  const terminal = new Terminal(['sql', own], folder)
  await terminal.sees('baton> ')
  await terminal.answer('create table t (a); insert into t values (1);')
  await terminal.answer('begin;', 'baton*> ')
  await terminal.answer('delete from t;', 'baton*> ')
  await terminal.sees('Others who wait to write may now end the transaction')
  await terminal.sees('The transaction was rolled back')
  expect(await terminal.answer('select count(*) as kept from t;')).toMatch(/kept\s+----\s+1\s/)

  terminal.type('.quit\n')
  expect(await terminal.end()).toBe(0)
})
