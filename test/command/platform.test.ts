import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, expect, test } from 'vitest'
import { runBaton } from '../support/baton-command.ts'
import { Terminal, terminalProblem } from '../support/terminal.ts'

const server = await startLocalServer({ platform: {} })
const folder = await mkdtemp(join(tmpdir(), 'baton-platform-'))
afterAll(() => Promise.all([server.close(), rm(folder, { recursive: true, force: true })]))
const platform = server.platform as NonNullable<typeof server.platform>

test('baton databases and baton token, with the platform API', async () => {
  const env = { BATON_API_URL: platform.url, BATON_API_TOKEN: platform.token }
  const api = (...args: string[]) => runBaton(args, { env })

  const created = await api('databases', 'create', 'app')
  expect([created.code, created.errors]).toEqual([0, ''])
  const url = created.output.trim()
  const listed = await api('databases', 'list', '--json')
  expect(JSON.parse(listed.output)).toContainEqual({ name: 'app', group: 'default', url })
  expect((await api('databases', 'list')).output).toMatch(new RegExp(`^app +default +${url}$`, 'm'))

  const { output: token } = await api('token', 'create', 'app', '--read-only', '--expiration', '1h')
  const read = await runBaton(['sql', url, 'select 1 as one'], { env: { TURSO_AUTH_TOKEN: token.trim() } })
  expect([read.code, read.output]).toEqual([0, 'one\n---\n  1\n'])
  const write = await runBaton(['sql', url, 'create table t (a)'], {
    env: { TURSO_AUTH_TOKEN: token.trim() },
  })
  expect([write.code, write.errors]).toEqual([1, expect.stringMatching(/HTTP 403|BLOCKED/)])

  const unknown = await api('token', 'create', 'app', '--expiration', 'tomorrow')
  expect([unknown.code, unknown.errors]).toEqual([2, expect.stringContaining('2w1d30m or 1h, or never')])

  const unsure = await api('databases', 'destroy', 'app')
  expect([unsure.code, unsure.errors]).toEqual([2, expect.stringContaining('--yes')])
  expect(await api('databases', 'destroy', 'app', '--yes')).toEqual({
    code: 0,
    output: 'deleted app\n',
    errors: '',
  })
  const gone = await api('databases', 'destroy', 'app', '--yes')
  expect([gone.code, gone.output]).toEqual([1, ''])

  if (terminalProblem === null) {
    await api('databases', 'create', 'kept')
    const asked = new Terminal(['databases', 'destroy', 'kept'], folder, env)
    await asked.sees('Type its name to confirm: ')
    asked.type('no\n')
    await asked.sees('"kept" was not deleted')
    expect(await asked.end()).toBe(1)
    const cancelled = new Terminal(['databases', 'destroy', 'kept'], folder, env)
    await cancelled.sees('Type its name to confirm: ')
    cancelled.type('\u0003')
    expect(await cancelled.end()).toBe(130)
    expect((await api('databases', 'show', 'kept')).code).toBe(0)
  }
})

test('baton token: tokens of the platform API are made, listed and taken back', {
  timeout: 180_000,
}, async () => {
  const env = { BATON_API_URL: platform.url, BATON_API_TOKEN: platform.token }
  const api = (...args: string[]) => runBaton(args, { env })

  const minted = await api('token', 'mint', 'ci')
  expect([minted.code, minted.errors]).toEqual([0, ''])
  const elsewhere = await api('token', 'mint', 'other', '--organization', 'no-such')
  expect([elsewhere.code, elsewhere.output]).toEqual([1, ''])
  const asCi = { env: { ...env, BATON_API_TOKEN: minted.output.trim() } }
  const listed = await runBaton(['token', 'list'], asCi)
  expect([listed.code, listed.output]).toEqual([0, expect.stringMatching(/^ci +\S+ +\d{4}-\d\d-\d\d/m)])
  expect((await api('token', 'revoke', 'ci')).output).toBe('revoked ci\n')
  const refused = await runBaton(['token', 'list'], asCi)
  expect([refused.code, refused.errors]).toEqual([1, expect.stringContaining('401')])
  expect((await api('token', 'revoke', 'ci')).code).toBe(1)
})

test('baton groups, databases show, usage and token rotate', async () => {
  const env = { BATON_API_URL: platform.url, BATON_API_TOKEN: platform.token }
  const api = (...args: string[]) => runBaton(args, { env })
  expect((await api('groups', 'create', 'team')).output).toBe('created team in local\n')
  const taken = await api('groups', 'create', 'team')
  expect([taken.code, taken.output, taken.errors]).toEqual([1, '', expect.stringContaining('409')])
  expect((await api('groups', 'create', 'far', '--location', 'nowhere')).code).toBe(1)
  expect((await api('groups', 'list')).output).toBe('default  local\nteam     local\n')
  const url = (await api('databases', 'create', 'ledger', '--group', 'team')).output.trim()
  expect((await api('databases', 'show', 'ledger')).output).toMatch(
    new RegExp(`^name +ledger\n.*^group +team\n.*^url +${url}\n.*^deleteProtection +false$`, 'ms'),
  )
  expect(JSON.parse((await api('databases', 'show', 'ledger', '--json')).output)).toMatchObject({
    url,
    branchOf: null,
  })
  const nosuch = await api('databases', 'show', 'nosuch')
  expect([nosuch.code, nosuch.errors]).toEqual([1, expect.stringMatching(/HTTP 404: .*nosuch.*\n$/)])
  expect(nosuch.errors).not.toContain('Is the name')

  const token = (await api('token', 'create', 'ledger')).output.trim()
  const write = () =>
    runBaton(['sql', url, 'create table if not exists t (a); insert into t values (1)'], {
      env: { BATON_AUTH_TOKEN: token },
    })
  expect((await write()).code).toBe(0)
  const used = JSON.parse((await api('usage', 'ledger', '--json')).output)
  expect(used).toMatchObject({ name: 'ledger', rowsWritten: expect.any(Number) })
  expect(used.rowsWritten).toBeGreaterThan(0)
  expect((await api('usage')).output).toMatch(/^ +rows read +rows written .*^ledger +\d.*^total +\d/ms)
  expect((await api('usage', 'nosuch')).code).toBe(1)

  expect((await api('token', 'rotate', 'ledger')).output).toContain('ledger')
  expect((await write()).errors).toContain('401')

  expect((await api('groups', 'destroy', 'team')).code).toBe(2)
  expect((await api('groups', 'destroy', 'team', '--yes')).output).toBe('deleted team\n')
  expect((await api('groups', 'list', '--json')).output).toBe(
    '[{"name":"default","primary":"local","locations":["local"]}]\n',
  )
})
