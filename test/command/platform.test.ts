import { startLocalServer } from '@batonsql/local-server'
import { afterAll, expect, test } from 'vitest'
import { expectFailure, runBaton } from '../support/baton-command.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { Terminal, terminalProblem } from '../support/terminal.ts'

const server = await startLocalServer({ platform: {} })
const folder = createTemporaryDirectory(afterAll)
afterAll(() => server.close())
const platform = server.platform as NonNullable<typeof server.platform>
const env = { BATON_API_URL: platform.url, BATON_API_TOKEN: platform.token }
const api = (...args: string[]) => runBaton(args, { env })

test('baton databases and baton database-tokens use the platform API', async () => {
  const created = await api('databases', 'create', 'app')
  expect([created.code, created.errors]).toEqual([0, ''])
  const url = created.output.trim()
  const list = await api('databases', 'list', '--json')
  expect(JSON.parse(list.output)).toContainEqual({ name: 'app', group: 'default', url })
  expect((await api('databases', 'list')).output).toMatch(new RegExp(`^app +default +${url}$`, 'm'))

  const { output: token } = await api('database-tokens', 'create', 'app', '--read-only', '--expiration', '1h')
  const read = await runBaton(['sql', url, 'select 1 as one'], { env: { TURSO_AUTH_TOKEN: token.trim() } })
  expect([read.code, read.output]).toEqual([0, 'one\n---\n  1\n'])
  await expectFailure(
    runBaton(['sql', url, 'create table t (a)'], {
      env: { TURSO_AUTH_TOKEN: token.trim() },
    }),
    1,
    /HTTP 403|BLOCKED/,
  )

  await expectFailure(
    api('database-tokens', 'create', 'app', '--expiration', 'tomorrow'),
    2,
    '2w1d30m or 1h, or never',
  )

  await expectFailure(api('databases', 'destroy', 'app'), 2, '--yes')
  expect(await api('databases', 'destroy', 'app', '--yes')).toEqual({
    code: 0,
    output: 'deleted app\n',
    errors: '',
  })
  const destroyed = await api('databases', 'destroy', 'app', '--yes')
  expect([destroyed.code, destroyed.output]).toEqual([1, ''])

  if (terminalProblem === null) {
    await api('databases', 'create', 'kept')
    const terminal = new Terminal(['databases', 'destroy', 'kept'], folder, env)
    await terminal.waitForText('Type its name to confirm: ')
    terminal.type('no\n')
    await terminal.waitForText('nothing was deleted: the answer was not "kept"')
    expect(await terminal.waitForExit()).toBe(1)
    const canceled = new Terminal(['databases', 'destroy', 'kept'], folder, env)
    await canceled.waitForText('Type its name to confirm: ')
    canceled.type('\u0003')
    expect(await canceled.waitForExit()).toBe(130)
    expect((await api('databases', 'show', 'kept')).code).toBe(0)
  }
})

test('baton api-tokens and organizations work for a user with one organization, and with several', async () => {
  const created = await api('api-tokens', 'create', 'ci')
  expect([created.code, created.errors]).toEqual([0, ''])
  const unknownOrganization = await api('api-tokens', 'create', 'other', '--organization', 'no-such')
  expect([unknownOrganization.code, unknownOrganization.output]).toEqual([1, ''])
  const ciEnv = { env: { ...env, BATON_API_TOKEN: created.output.trim() } }
  const list = await runBaton(['api-tokens', 'list'], ciEnv)
  expect([list.code, list.output]).toEqual([
    0,
    expect.stringMatching(/^ci +\S+ +\d{4}-\d\d-\d\d +all organizations$/m),
  ])

  // an unrestricted token also gives access to organizations that are created later, and a user with several organizations can
  // revoke it
  expect((await api('organizations', 'create', 'Second One')).output).toBe('created second-one\n')
  expect((await api('organizations', 'create', 'Second One')).errors).toContain('409')
  expect((await runBaton(['organizations', 'list'], ciEnv)).output).toMatch(
    /^SLUG +TYPE +NAME\nlocal +personal +\S.*\nsecond-one +team +Second One\n$/,
  )
  await expectFailure(
    api('groups', 'list'),
    2,
    'choose an organization with --organization: local, second-one',
  )
  const second = await api('api-tokens', 'create', 'second', '--organization', 'second-one', '--json')
  const secondEnv = { env: { ...env, BATON_API_TOKEN: JSON.parse(second.output).token } }
  expect((await runBaton(['organizations', 'list'], secondEnv)).output).toMatch(/^SLUG .*\nsecond-one .*\n$/)
  await expectFailure(runBaton(['api-tokens', 'create', 'third'], secondEnv), 1, '403')

  await expectFailure(
    api('api-tokens', 'list', '--organization', 'local'),
    2,
    'unknown option --organization',
  )
  expect((await api('api-tokens', 'revoke', 'ci')).output).toBe('revoked ci\n')
  await expectFailure(runBaton(['api-tokens', 'list'], ciEnv), 1, '401')
  expect((await api('api-tokens', 'revoke', 'ci')).code).toBe(1)
  await deleteOrganization('second-one')
})

/** Deletes an organization through the platform API. There is no command for this, because it cannot be undone. */
async function deleteOrganization(slug: string): Promise<void> {
  const headers = { authorization: `Bearer ${platform.token}` }
  const response = await fetch(`${platform.url}/v1/organizations/${slug}`, { method: 'DELETE', headers })
  expect(response.status).toBe(200)
}

test('baton groups, databases show, usage and database-tokens rotate work', async () => {
  expect((await api('groups', 'create', 'team')).output).toBe('created team in local\n')
  await expectFailure(api('groups', 'create', 'team'), 1, '409')
  expect((await api('groups', 'create', 'far', '--location', 'nowhere')).code).toBe(1)
  expect((await api('groups', 'list')).output).toBe('NAME     LOCATIONS\ndefault  local\nteam     local\n')
  const url = (await api('databases', 'create', 'ledger', '--group', 'team')).output.trim()
  await api('databases', 'create', 'ledger-fork', '--from-database', 'ledger')
  expect(JSON.parse((await api('databases', 'show', 'ledger-fork', '--json')).output)).toMatchObject({
    group: 'team',
    branchOf: 'ledger',
  })
  expect((await api('databases', 'show', 'ledger')).output).toMatch(
    new RegExp(`^name +ledger\n.*^group +team\n.*^url +${url}\n.*^deleteProtection +false$`, 'ms'),
  )
  expect(JSON.parse((await api('databases', 'show', 'ledger', '--json')).output)).toMatchObject({
    url,
    branchOf: null,
  })
  const missing = await api('databases', 'show', 'nosuch')
  expect([missing.code, missing.errors]).toEqual([1, expect.stringMatching(/HTTP 404: .*nosuch.*\n$/)])
  expect(missing.errors).not.toContain('Is the name')

  const token = (await api('database-tokens', 'create', 'ledger')).output.trim()
  const write = () =>
    runBaton(['sql', url, 'create table if not exists t (a); insert into t values (1)'], {
      env: { BATON_AUTH_TOKEN: token },
    })
  expect((await write()).code).toBe(0)
  const usage = JSON.parse((await api('usage', 'ledger', '--json')).output)
  expect(usage).toMatchObject({ name: 'ledger', rowsWritten: expect.any(Number) })
  expect(usage.rowsWritten).toBeGreaterThan(0)
  expect((await api('usage')).output).toMatch(/^NAME +ROWS READ +ROWS WRITTEN .*^ledger +\d.*^total +\d/ms)
  expect((await api('usage', 'nosuch')).code).toBe(1)

  expect((await api('database-tokens', 'rotate', 'ledger')).output).toContain('ledger')
  expect((await write()).errors).toContain('401')

  expect((await api('groups', 'destroy', 'team')).code).toBe(2)
  expect((await api('groups', 'destroy', 'team', '--yes')).output).toBe('deleted team\n')
  expect((await api('groups', 'list', '--json')).output).toBe(
    '[{"name":"default","primary":"local","locations":["local"]}]\n',
  )
})
