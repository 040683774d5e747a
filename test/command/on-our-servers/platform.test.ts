import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { startLocalServer } from '@batonsql/local-server'
import { expect, inject, onTestFinished, test } from 'vitest'
import { Harness, sql } from '../../platform/platform-harness.ts'
import { expectFailure, readUntil, runBaton, startBaton } from '../../support/baton-command.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { words } from '../../support/words.ts'

/** Runs the command. @returns its output, without surrounding line breaks */
async function baton(args: readonly string[]) {
  const { code, output, errors } = await runBaton(args)
  return { code, output: output.trim(), errors: errors.trim() }
}

/** Starts the command for the rest of the test. @returns its first line of output */
async function startAndReadLine(args: readonly string[]): Promise<string> {
  const child = startBaton(args)
  onTestFinished(async () => {
    const exited = once(child, 'exit')
    // so that it removes its temporary directory
    if (child.kill('SIGTERM')) await exited
  })
  const output = await readUntil(child.stdout, /\n$/)
  return output
}

test("baton user prints a token, and accepts the invitations for the user's address", async () => {
  const directory = createTemporaryDirectory()
  {
    await using harness = await Harness.start({}, directory)
    await harness.requestOk('POST', `/v2/organizations/local/invites`, {
      body: { email: 'ada@example.test', role: 'viewer' },
    })
    const rejected = await baton(['user', 'ada', '--data', directory])
    expect([rejected.code, rejected.output]).toEqual([1, ''])
    expect(rejected.errors).toContain('in use by process')
  }
  const user = await baton(['user', 'ada', '--email', 'ada@example.test', '--data', directory])
  expect([user.code, user.errors]).toEqual([0, ''])
  {
    await using harness = await Harness.start({}, directory)
    const { members } = await harness.requestOk('GET', 'members')
    expect(members).toContainEqual(expect.objectContaining({ username: 'ada', role: 'viewer' }))
    expect(await harness.statusOf('GET', 'databases', { token: user.output })).toBe(200)
    expect(await harness.statusOf('POST', 'groups', { token: user.output })).toBe(403)
  }
  expect((await baton(['user', 'ada', '--data', directory])).errors).toContain('user "ada" already exists')
  await expectFailure(
    baton(['user', 'A B', '--data', directory]),
    2,
    /^baton user: a username must be 1 to 39/,
  )
  await expectFailure(
    baton(['user', 'bob', '--data', join(directory, 'nowhere')]),
    1,
    'is not the data directory of a server',
  )
})

test('baton databases configure and groups configure change individual settings, which are enforced', async () => {
  await using harness = await Harness.start()
  const { platform } = harness
  const env = { BATON_API_URL: platform.url, BATON_API_TOKEN: platform.token }
  const api = (...args: string[]) => runBaton(args, { env })
  const { host, token } = await harness.openDatabase('app')
  const configure = (...options: string[]) => api('databases', 'configure', 'app', ...options)

  const initialOutput = [
    'sizeLimit         none',
    'allowAttach       false',
    'blockReads        false',
    'blockWrites       false',
    'deleteProtection  false',
    'allowedIps        none\n',
  ].join('\n')
  expect(await configure()).toEqual({ code: 0, output: initialOutput, errors: '' })
  const changed = await configure('--size-limit', '256mb', '--block-writes', 'on', '--json')
  expect(JSON.parse(changed.output)).toEqual({
    sizeLimit: '256mb',
    allowAttach: false,
    blockReads: false,
    blockWrites: true,
    deleteProtection: false,
    allowedIps: [],
  })
  expect((await sql(host, token, 'CREATE TABLE t (a)')).error).toContain('BLOCKED')
  const options = ['--block-writes', 'off', '--allow-attach', 'on', '--delete-protection', 'on']
  expect((await configure(...options, '--allowed-ips', '127.0.0.1, ::1')).output).toBe(
    [
      'sizeLimit         256mb',
      'allowAttach       true',
      'blockReads        false',
      'blockWrites       false',
      'deleteProtection  true',
      'allowedIps        127.0.0.1,::1\n',
    ].join('\n'),
  )
  expect((await sql(host, token, 'CREATE TABLE t (a)')).error).toBeNull()

  const invalidOptions = [
    { args: ['--block-reads', 'yes'], code: 2, error: '--block-reads must be on or off, not yes' },
    { args: ['--size-limit', 'huge'], code: 1, error: 'HTTP 400: invalid size_limit' },
    { args: ['--allowed-ips', 'nowhere'], code: 1, error: 'HTTP 400' },
  ]
  for (const { args, code, error } of invalidOptions)
    expect(await configure(...args)).toEqual({ code, output: '', errors: expect.stringContaining(error) })

  const destroy = () => api('databases', 'destroy', 'app', '--yes')
  await expectFailure(destroy(), 1, 'baton databases configure NAME --delete-protection off')
  const reset = [...words('--delete-protection off --size-limit 0 --allow-attach off --allowed-ips'), '']
  expect((await configure(...reset)).output).toBe(initialOutput)
  expect((await destroy()).output).toBe('deleted app\n')

  await api('groups', 'create', 'team')
  const configureGroup = (...options: string[]) => api('groups', 'configure', 'team', ...options)
  expect((await configureGroup()).output).toBe('deleteProtection  false\n')
  expect((await configureGroup('--delete-protection', 'on')).output).toBe('deleteProtection  true\n')
  expect((await api('groups', 'destroy', 'team', '--yes')).errors).toContain(
    'baton groups configure NAME --delete-protection off',
  )
  expect((await configureGroup('--delete-protection', 'off', '--json')).output).toBe(
    '{"deleteProtection":false}\n',
  )
  expect((await api('groups', 'destroy', 'team', '--yes')).output).toBe('deleted team\n')
  expect((await configureGroup()).code).toBe(1)
})

test('baton api-tokens create --group creates a token limited to the given scopes', async () => {
  await using harness = await Harness.start()
  const { platform } = harness
  const api = (token: string, ...args: string[]) =>
    runBaton(args, { env: { BATON_API_URL: platform.url, BATON_API_TOKEN: token } })
  const asOwner = (...args: string[]) => api(platform.token, ...args)
  await asOwner('groups', 'create', 'team')
  await asOwner('databases', 'create', 'app', '--group', 'team')
  const create = (name: string, ...options: string[]) => asOwner('api-tokens', 'create', name, ...options)

  const readerToken = (await create('reader', '--group', 'team', '--scope', 'read-only')).output.trim()
  const makerToken = (
    await create('maker', '--group', 'team', '--scope', 'db:mint-token', '--scope', 'read')
  ).output.trim()
  expect((await asOwner('api-tokens', 'list')).output).toMatch(
    /^reader +\S+ +\S+ +local\/team +read\nmaker +\S+ +\S+ +local\/team +read db:mint-token$/m,
  )
  expect((await api(readerToken, 'databases', 'list')).output).toMatch(/^NAME +GROUP +URL\napp +team +\S+\n$/)
  await expectFailure(api(readerToken, 'database-tokens', 'create', 'app'), 1, 'db:mint-token')
  expect((await api(makerToken, 'database-tokens', 'create', 'app')).output).toMatch(/^ey/)
  expect((await api(makerToken, 'databases', 'show', 'default')).code).toBe(1)

  const metricsToken = (await create('prometheus', '--scope', 'metrics')).output.trim()
  const metricsResponse = await fetch(`${platform.url}/metrics`, {
    headers: { authorization: `Bearer ${metricsToken}` },
  })
  expect([metricsResponse.status, (await metricsResponse.text()).includes('app')]).toEqual([200, true])

  await expectFailure(create('x', '--group', 'team'), 2, '--group needs --scope')
  await expectFailure(
    create('x', '--group', 'team', '--scope', 'write'),
    2,
    '--scope must be read-only, full-access, read,',
  )
  expect(await create('x', '--scope', 'read')).toMatchObject({ code: 1, output: '' })
  expect(await create('x', '--group', 'nowhere', '--scope', 'read')).toMatchObject({ code: 1, output: '' })
})

test('baton export writes a database of a stopped server to an SQLite file', async () => {
  const directory = createTemporaryDirectory()
  const file = join(directory, 'app.sqlite')
  const args = ['export', 'app', file, '--data', directory]
  {
    await using harness = await Harness.start({}, directory)
    await harness.openDatabase('app', ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (7)'])
    expect((await baton(args)).errors).toMatch(
      /in use by process \d+.*\nIt is not a `baton dev` of this user: export with the URL/,
    )
  }
  expect(await baton(args)).toEqual({ code: 0, output: `exported app to ${file}`, errors: '' })
  using database = new DatabaseSync(file, { readOnly: true })
  expect(database.prepare('SELECT a FROM t').all()).toEqual([{ a: 7 }])
  expect((await baton(args)).errors).toContain('already exists')
})

test('with baton dev --ready-delay, a new database returns 404 at first', async () => {
  const backend = inject('target')
  const devArgs = ['dev', '--json', '--port', '0', '--backend', backend]
  const file = join(createTemporaryDirectory(), 'tokens.json')
  await startAndReadLine([...devArgs, '--platform-port', '0', '--token-file', file, '--ready-delay', '3000'])
  const { url, token } = JSON.parse(await readFile(file, 'utf8')).platform
  const headers = { authorization: `Bearer ${token}` }
  const sendRequest = async (path: string, body: object) => {
    const response = await fetch(`${url}/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as { database: { Hostname: string }; jwt: string }
  }
  const { database } = await sendRequest('/databases', { name: 'app', group: 'default' })
  const { jwt } = await sendRequest('/databases/app/auth/tokens', {})
  expect((await sql(database.Hostname, jwt, 'SELECT 1')).status).toBe(404)
  await expect
    .poll(async () => (await sql(database.Hostname, jwt, 'SELECT 1')).status, { timeout: 60_000 })
    .toBe(200)
  await expectFailure(baton([...devArgs, '--ready-delay', '5']), 2, 'need --platform-port')
})

test('a data directory can be used only with the back end that created its databases', async () => {
  const directory = createTemporaryDirectory()
  {
    await using harness = await Harness.start({}, directory)
    await harness.createDatabase('app')
  }
  const backend = inject('target') as 'embedded' | 'sqld'
  const otherBackend = backend === 'sqld' ? 'embedded' : 'sqld'
  await expect(startLocalServer({ backend: otherBackend, dataDirectory: directory })).rejects.toThrow(
    `belong to the back end "${backend}", not "${otherBackend}"`,
  )
  // a start that failed before a database was created does not determine the back end
  const emptyDirectory = createTemporaryDirectory()
  const options = { backend: 'sqld', sqldPath: '/nonexistent/sqld', dataDirectory: emptyDirectory } as const
  await expect(startLocalServer(options)).rejects.toThrow('/nonexistent/sqld')
  await (await startLocalServer({ backend: 'embedded', dataDirectory: emptyDirectory })).close()
  // no database was marked as lost
  await using harness = await Harness.start({}, directory)
  const { database } = await harness.requestOk('GET', 'databases/app')
  expect((await sql(database.Hostname, await harness.tokenFor('app'), 'SELECT 1')).status).toBe(200)
})

test('databases of a platform API are forked, and restored from snapshots', async () => {
  await using harness = await Harness.start()
  const { platform } = harness
  const env = { BATON_API_URL: platform.url, BATON_API_TOKEN: platform.token }
  const api = (...args: string[]) => runBaton(args, { env })
  const { host } = await harness.openDatabase('app', 'create table note (text)')
  expect((await api('snapshot', 'create', 'app', 'empty')).output).toBe('empty\n')
  await sql(host, await harness.tokenFor('app'), "insert into note values ('later')")
  const [snapshot] = JSON.parse((await api('snapshot', 'list', 'app', '--json')).output)
  expect(snapshot).toEqual({ name: 'empty', bytes: expect.any(Number), createdAt: expect.any(String) })
  const fork = JSON.parse((await api('fork', 'app', 'old', '--snapshot', 'empty', '--json')).output)
  expect(fork).toMatchObject({ name: 'old', group: 'default' })
  const count = 'select count(*) from note'
  const forkHost = fork.url.replace(/^https?:\/\//, '').replace(/\/$/, '')
  expect((await sql(forkHost, await harness.tokenFor('old'), count)).rows).toEqual([['0']])
  expect((await api('fork', 'app', 'x', '--snapshot', 'y')).errors).toContain(
    '"y" of database "app" does not',
  )
  expect((await api('snapshot', 'restore', 'app', 'empty', '--yes')).output).toBe('restored app from empty\n')
  expect((await sql(host, await harness.tokenFor('app'), count)).rows).toEqual([['0']])
  expect((await api('snapshot', 'delete', 'app', 'empty')).output).toBe('deleted empty\n')
})

test('a database of a platform API is created from a dump, and deleted if that fails', async () => {
  await using harness = await Harness.start()
  const env = { BATON_API_URL: harness.platform.url, BATON_API_TOKEN: harness.platform.token }
  const create = (name: string, input: string) =>
    runBaton(['databases', 'create', name, '--from-dump', '-', '--json'], { env, input })
  const created = await create('app', 'create table t (a); insert into t values (9007199254740993);')
  expect([created.code, created.errors]).toEqual([0, ''])
  const { url, ...rest } = JSON.parse(created.output)
  expect(rest).toEqual({ name: 'app', group: 'default' })
  const host = url.replace(/^https?:\/\//, '').replace(/\/$/, '')
  expect((await sql(host, await harness.tokenFor('app'), 'select a from t')).rows).toEqual([
    ['9007199254740993'],
  ])

  const taken = await create('app', 'create table u (a);')
  expect([taken.code, taken.errors]).toEqual([1, expect.stringContaining('already exists')])
  expect(taken.errors).not.toContain('deleted')
  const failed = await create('x', 'create table t (a); insert into u values (1);')
  expect([failed.code, failed.output]).toEqual([1, ''])
  expect(failed.errors).toMatch(/^the database "x" was deleted\n.*no such table: u/)
  expect((await runBaton(['databases', 'show', 'x'], { env })).code).toBe(1)
})

test('a database that was created for a dump is deleted if the command is interrupted before it is ready', async () => {
  await using harness = await Harness.start({ readyDelayMs: 3_600_000 })
  const env = { BATON_API_URL: harness.platform.url, BATON_API_TOKEN: harness.platform.token }
  const child = startBaton(['databases', 'create', 'x', '--from-dump', '-'], env)
  const errors = text(child.stderr)
  await expect.poll(() => harness.server.databaseNames).toContain('x')
  const exited = once(child, 'exit')
  child.kill('SIGINT')
  expect(await exited).toEqual([130, null])
  expect(await errors).toBe('the database "x" was deleted\n')
  expect(harness.server.databaseNames).not.toContain('x')
})
