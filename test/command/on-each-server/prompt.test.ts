import { once } from 'node:events'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { createClient } from '@batonsql/core'
import { afterAll, expect, onTestFinished, test, vi } from 'vitest'
import { runPrompt } from '../../../packages/cli/src/prompt.ts'
import { FaultProxy, NO_FAULT } from '../../support/fault-proxy.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { Terminal, terminalProblem } from '../../support/terminal.ts'
import { openTestServer } from '../../support/test-server.ts'

const server = await openTestServer()
const { url, authToken } = await server.createDatabase()
const stateDirectory = createTemporaryDirectory(afterAll)

const openTerminal = () => new Terminal(['sql', url], stateDirectory, { BATON_AUTH_TOKEN: authToken ?? '' })

test('supports multi-line statements, errors, .tables, Ctrl-C, transactions and history', async ({
  skip,
}) => {
  if (terminalProblem !== null) skip(terminalProblem)
  const terminal = openTerminal()
  await terminal.waitForText('baton> ')
  await terminal.run('create table t (a);')
  await terminal.run('select 1 as one,', '...> ')
  expect(await terminal.run("'a;b' as two;")).toMatch(/one {2}two\s+--- {2}---\s+1 {2}a;b\s+\(1 row\)/)
  expect(await terminal.run('.tables')).toMatch(/^\s*t\s/m)
  expect(await terminal.run('.schema t')).toContain('CREATE TABLE t (a);')
  await terminal.run('create table zebra (stripes);')
  // a tab within pasted text is not a key
  terminal.type('select stripes from zeb')
  await terminal.waitForText('from zeb')
  terminal.type('\t')
  await terminal.waitForText('ra')
  expect(await terminal.run(';')).toContain('(0 rows)')
  await terminal.run('.mode line')
  expect(await terminal.run("select 1 as one, 'b' as other union all select 2.0, null;")).toMatch(
    / {2}one = 1\s+other = b\s+one = 2\.0\s+other = NULL\s+\(2 rows\)/,
  )
  expect(await terminal.run('.mode wide')).toContain('unknown mode wide; the modes are table, line')
  await terminal.run('.mode table')
  expect(await terminal.run('.nope')).toContain('unknown command .nope')
  expect(await terminal.run('.schema nope')).toContain('there is no table or view nope')
  expect(await terminal.run('help')).toMatch(/\.tables +tables and views/)
  expect(await terminal.run('select nope;')).toMatch(
    /no such column: nope.*\s+line 1, column 8:\s+select nope\s+\^/,
  )

  terminal.type('select 2')
  await terminal.waitForText('select 2')
  terminal.type('\u0003')
  await terminal.waitForText('^C')
  await terminal.waitForText('baton> ')
  expect(await terminal.run('select 3 as three;')).toMatch(/three\s+-----\s+3\s/)

  expect(await terminal.run('begin;', 'baton*> ')).toContain('after 10 s without a statement')
  expect(await terminal.run('insert into t values (1);', 'baton*> ')).toContain('1 row changed')
  expect(await terminal.run('select nope;', 'baton*> ')).toContain('no such column')
  await terminal.run('commit;')
  expect(await terminal.run('select count(*) as kept from t;')).toMatch(/kept\s+----\s+1\s/)

  await terminal.run('begin;', 'baton*> ')
  terminal.type('\u0004')
  await terminal.waitForText('The open transaction was rolled back.')
  expect(await terminal.waitForExit()).toBe(0)

  const history = join(stateDirectory, 'baton', 'history')
  expect((await readFile(history, 'utf8')).split('\n')).toContain("'a;b' as two;")
  expect((await stat(history)).mode & 0o777).toBe(0o600)
  const secondTerminal = openTerminal()
  await secondTerminal.waitForText('baton> ')
  secondTerminal.type('\u001b[A\u001b[A\n')
  await secondTerminal.waitForText('kept')
  secondTerminal.type('.quit\n')
  expect(await secondTerminal.waitForExit()).toBe(0)
})

test('says that it is unknown whether changes were applied if the response to a COMMIT or a write is lost or not awaited', async ({
  skip,
}) => {
  if (terminalProblem !== null) skip(terminalProblem)
  const proxy = await FaultProxy.start(url)
  onTestFinished(() => proxy.close())
  const terminal = new Terminal(['sql', proxy.url], stateDirectory, { BATON_AUTH_TOKEN: authToken ?? '' })
  await terminal.waitForText('baton> ')
  const begin = async (table: string): Promise<void> => {
    await terminal.run(`create table ${table} (a);`)
    await terminal.run('begin;', 'baton*> ')
    await terminal.run(`insert into ${table} values (1);`, 'baton*> ')
  }
  const unknown = 'It is unknown whether the changes were applied.'

  await begin('lost')
  proxy.next = (body) => (body.includes('COMMIT') ? { kind: 'drop-after' } : NO_FAULT)
  expect(await terminal.run('commit;')).toContain(unknown)
  proxy.next = () => NO_FAULT
  expect(await terminal.run('select count(*) as kept from lost;')).toMatch(/kept\s+----\s+1\s/)

  await begin('undone')
  proxy.next = (body) => (body.includes('select 7') ? { kind: 'drop-before' } : NO_FAULT)
  expect(await terminal.run('select 7;')).toContain('The transaction was rolled back.')

  const cancel = async (line: string): Promise<string> => {
    const sent = new Promise<void>((resolve) => {
      proxy.next = (body) => {
        if (!/COMMIT|values \(5\)|select 8/.test(body)) return NO_FAULT
        resolve()
        return { kind: 'hold-response', until: new Promise(() => {}) }
      }
    })
    terminal.type(`${line}\n`)
    await sent
    terminal.type('\u0003')
    return await terminal.waitForText('baton> ')
  }
  proxy.next = () => NO_FAULT
  await begin('canceled')
  for (const line of ['commit;', 'insert into canceled values (5);'])
    expect(await cancel(line)).toContain(`\nCanceled. ${unknown}`)
  expect(await cancel('select 8;')).toContain('Canceled.\r\n')
  proxy.next = () => NO_FAULT
  terminal.type('\u0004')
  expect(await terminal.waitForExit()).toBe(0)
})

test('reports that an idle transaction was rolled back only if the server has begun it', async () => {
  // as the command opens it
  await using db = createClient({ url, authToken, intMode: 'bigint', transactionTimeoutMs: Infinity })
  const [input, output, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
  const env = { XDG_STATE_HOME: stateDirectory }
  const { signal } = new AbortController()
  const ended = runPrompt(db, { input, output, stderr, env, commands: [], signal })
  let shown = ''
  output.on('data', (part) => {
    shown += String(part)
  })
  const waitForText = async (text: string): Promise<void> => {
    while (!shown.includes(text)) await once(output, 'data')
  }
  const run = async (line: string, next: string): Promise<string> => {
    shown = ''
    input.write(`${line}\n`)
    await waitForText(next)
    return shown
  }
  /** Lets the time pass after which an idle transaction is rolled back. */
  const idle = (): string => {
    shown = ''
    vi.advanceTimersByTime(10_000)
    return String(output.read() ?? '') + shown
  }
  await waitForText('baton> ')
  await run('create table kept (a);', 'baton> ')
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  await run('begin;', 'baton*> ')
  // the server executes nothing of a request that it cannot parse
  expect(await run('selec 1;', 'baton*> ')).toContain('syntax error')
  expect(idle()).not.toContain('rolled back')
  await run('insert into kept values (1);', 'baton*> ')
  await run('commit;', 'baton> ')
  expect(await run('select count(*) as n from kept;', 'baton> ')).toMatch(/n\s+-\s+1\s/)
  await run('begin;', 'baton*> ')
  expect(await run('select nope;', 'baton*> ')).toContain('no such column')
  expect(idle()).toContain('The transaction was rolled back: no statement for 10 s.')
  input.write('.quit\n')
  await ended
})
