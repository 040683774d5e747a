import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, expect, test, vi } from 'vitest'
import type { CommandContext } from './command-context.ts'
import { describeError } from './describe-error.ts'
import { runDev, toUsageError } from './dev.ts'
import { addLocation, destroyGroup, listGroups } from './groups.ts'
import { runImport } from './import-command.ts'
import type { API_OPTIONS, SQL_OPTIONS, ValuesOf } from './option-table.ts'
import { runRestore } from './restore.ts'
import { runSql } from './sql.ts'
import { UsageError } from './usage-error.ts'

const server = await startLocalServer({ auth: true, platform: {} })
afterAll(() => server.close())
const { url } = server
const platform = server.platform as NonNullable<typeof server.platform>

/** Runs a command in this process. @returns its output, or the error message, after `usage:` for exit code 2 */
async function runToText(
  run: (context: CommandContext) => Promise<void>,
  env: CommandContext['env'] = {},
): Promise<string> {
  const output = new PassThrough()
  const printed = text(output)
  const input = new PassThrough()
  const { signal } = new AbortController()
  try {
    await run({ input, output, stderr: output, env, commands: [], signal })
    output.end()
    return await printed
  } catch (error) {
    return `${error instanceof UsageError ? 'usage: ' : ''}${describeError(error)}`
  }
}

const sql = (operands: readonly string[], values: ValuesOf<typeof SQL_OPTIONS> = {}, env = {}) =>
  runToText((context) => runSql({ values, operands, context }), env)

test('baton sql: errors explain what to do', async () => {
  expect(await sql(['http://127.0.0.1:1', 'select 1'])).toMatch(
    /^baton: .*ECONNREFUSED.*\nIs the server running/,
  )
  expect(await sql(['ftp://127.0.0.1', 'select 1'])).toMatch(/^usage: baton: url must be libsql/)
  expect(await sql(['./app.db', 'select 1'])).toMatch(/^usage: .*`baton dev --open FILE.db`/)
  const token = await server.createToken('default')
  expect(await sql([`${url}/nope`, 'select 1'], { 'auth-token': token })).toMatch(
    /^baton: .*HTTP 404.*\nIs the name of the database correct\?$/,
  )
  expect(await sql([url, 'select 1'], { file: 'x.sql' })).toMatch(/^usage: .*not both/)
  expect(await sql([url], { file: '/nowhere.sql' })).toMatch(/^usage: .*nowhere\.sql does not exist/)
  expect(await sql([url, 'select 1'], { timeout: 'soon' })).toMatch(/^usage: .*number of seconds, not soon/)
})

test('baton sql: requires a token, which is read from the option or else from the environment', async () => {
  const reader = await server.createToken('default', { authorization: 'read-only' })
  const statements = [url, 'select 1 as one']
  const table = 'one\n---\n  1\n'
  expect(await sql(statements)).toMatch(/HTTP 401.*\nThe database needs a token/)
  expect(await sql(statements, { 'auth-token': reader })).toBe(table)
  expect(await sql(statements, {}, { TURSO_AUTH_TOKEN: reader })).toBe(table)
  expect(await sql(statements, {}, { TURSO_AUTH_TOKEN: 'wrong', BATON_AUTH_TOKEN: reader })).toBe(table)
  expect(await sql(statements, {}, { TURSO_AUTH_TOKEN: reader, BATON_AUTH_TOKEN: '' })).toBe(table)
  const rejected = /HTTP 401.*\nThe database rejected the token/
  expect(await sql(statements, { 'auth-token': 'wrong' }, { BATON_AUTH_TOKEN: reader })).toMatch(rejected)
  const date = vi.spyOn(Date, 'now').mockReturnValueOnce(Date.now() - 3_600_000)
  const expired = await server.createToken('default', { expiration: '1m' })
  date.mockRestore()
  expect(await sql(statements, { 'auth-token': expired })).toMatch(rejected)
  const escaped = await sql([url, 'select * from "\u001b[31mred"'], { 'auth-token': reader })
  expect(escaped).toContain('no such table: \\u001b[31mred')
  expect(await sql([url, 'create table t (a)'], { 'auth-token': reader })).toMatch(
    /HTTP 403.*Write permission/,
  )
})

test('DATABASE_URL and DATABASE_TOKEN are used unless an argument overrides them', async () => {
  const env = { DATABASE_URL: url, DATABASE_TOKEN: await server.createToken('default') }
  const table = 'one\n---\n  1\n'
  expect(await sql(['select 1 as one'], {}, env)).toBe(table)
  expect(await sql([url, 'select 1 as one'], {}, env)).toBe(table)
  // as in a command of `baton migrate`, which inherits the tokens of other databases
  expect(await sql(['select 1 as one'], {}, { ...env, BATON_AUTH_TOKEN: 'of another' })).toBe(table)
  // the token is sent only to the database that it is meant for
  const otherDatabaseOutput = await sql(
    [url, 'select 1 as one'],
    {},
    { ...env, DATABASE_URL: 'http://127.0.0.1:1' },
  )
  expect(otherDatabaseOutput).toContain('HTTP 401')
  expect(await sql(['select 1 as one'], {}, {})).toMatch(/^usage: .*neither a URL nor the name/)
  expect(await sql([])).toMatch(/^usage: .*DATABASE_URL/)
})

test('a DATABASE_URL that is not set, or was copied with more than the URL, is named', async () => {
  for (const unset of [{}, { DATABASE_URL: '' }])
    expect(await sql(['select 1'], {}, unset)).toMatch(
      /^usage: baton: DATABASE_URL is not set, and "select 1" is neither .* Pass the database first, or set DATABASE_URL\.$/,
    )
  const importFile = runToText((context) => runImport({ values: {}, operands: ['people.csv'], context }))
  expect(await importFile).toMatch(/^usage: baton: DATABASE_URL is not set, and "people\.csv" is neither/)
  for (const quoted of [`"${url}"`, `'${url}'`, `${url}"`])
    expect(await sql(['select 1'], {}, { DATABASE_URL: quoted })).toBe(
      'usage: baton: DATABASE_URL begins or ends with a quote: remove it where it is set',
    )
  for (const spaced of [`${url}\n`, ` ${url}`])
    expect(await sql(['select 1'], {}, { DATABASE_URL: spaced })).toBe(
      'usage: baton: DATABASE_URL begins or ends with a space or a line break: remove it where it is set',
    )
  expect(await sql(['"http://127.0.0.1:1"', 'select 1'])).toBe(
    'usage: baton: url begins or ends with a quote: remove it where it is set',
  )
})

test('the URL of something else is recognized: the inspector, the port of the databases', async () => {
  await using open = await startLocalServer({ inspector: true })
  expect(await sql([`${open.url}/_baton`, 'select 1'])).toMatch(
    /HTTP 405: this is the request inspector, not a database: leave out \/_baton/,
  )
  const { token } = platform
  const list = (apiUrl: string, apiToken = token) =>
    runToText((context) =>
      listGroups({ values: { 'api-url': apiUrl, token: apiToken }, operands: [], context }),
    )
  for (const apiUrl of [url, open.url, `${open.url}/_baton`, `${url}/default/`])
    expect(await list(apiUrl)).toMatch(
      /^baton: GET .* returned HTTP 404\nThat is not the platform API: `baton dev --platform-port` prints its URL/,
    )
  expect(await list(platform.url, await server.createToken('default'))).toBe(
    'usage: baton: token is a database token, which the platform API rejects: create an API token with `baton api-tokens create NAME`',
  )
})

test('an unknown location is rejected with the locations, or with the command that lists them', async () => {
  const values = { 'api-url': platform.url, token: platform.token }
  const operands = ['default', 'frankfurt']
  expect(await runToText((context) => addLocation({ values, operands, context }))).toMatch(
    /invalid location: frankfurt\n`baton locations list` lists the locations\.$/,
  )
  const serve = { port: '0', backend: 'sqld', replica: ['frankfurt'] }
  expect(await runToText((context) => runDev({ values: serve, operands: [], context }))).toMatch(
    /^usage: baton: unknown location frankfurt; the locations are local, ams, fra, /,
  )
})

test('only the TypeErrors of the server that name an option are usage errors', async () => {
  for (const options of [
    { host: '' },
    { platform: { organization: 'A b' } },
    { platform: { port: -1 } },
    { domains: { 'a:1': 'default' } },
    { allowOrigins: ['x'] },
    { databases: { BAD: {} } },
    { databases: { 'a\nb': {} } },
    { backend: 'sqld', sqld: { url: 'x', adminUrl: 'http://127.0.0.1:1', adminKey: 'x' } },
  ] as const)
    expect(
      toUsageError(await startLocalServer(options).catch((error: unknown) => error), new Map()),
    ).toBeInstanceOf(UsageError)
  const mistake = new TypeError("Cannot read properties of undefined (reading 'name')")
  expect(toUsageError(mistake, new Map())).toBe(mistake)
})

test('baton restore: rejects a file that is not a dump, without suggesting --resume', async () => {
  const values = { 'auth-token': await server.createToken('default') }
  const operands = [url, import.meta.filename]
  const rejection = await runToText((context) => runRestore({ values, operands, context }))
  expect(rejection).toMatch(/^baton: /)
  expect(rejection).not.toContain('--resume')
})

test('baton sql: --timeout aborts longer statements, and 0 sets no limit', async () => {
  const token = { 'auth-token': await server.createToken('default') }
  const slow = 'with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n'
  expect(await sql([url, slow], { ...token, timeout: '0.2' })).toMatch(/^baton: .*(0\.2|200)/)
  expect(await sql([url, 'select 1 as one'], { ...token, timeout: '0' })).toBe('one\n---\n  1\n')
})

test('commands of the platform API report missing settings', async () => {
  const list = (values: ValuesOf<typeof API_OPTIONS>, env = {}) =>
    runToText((context) => listGroups({ values, operands: [], context }), env)
  expect(await list({}, { BATON_API_TOKEN: 'x' })).toMatch(/^usage: .*--api-url/)
  expect(await list({ 'api-url': platform.url })).toMatch(/^usage: .*--token/)
  expect(await list({ 'api-url': 'nonsense', token: 'x' })).toMatch(/^usage: /)
  expect(await list({ 'api-url': platform.url, token: 'x' })).toMatch(
    /^baton: .*401.*\nThe platform API needs its own token: pass --token,/,
  )
  // reported before it asks for a confirmation
  expect(await runToText((context) => destroyGroup({ values: {}, operands: ['x'], context }))).toMatch(
    /^usage: .*--api-url/,
  )
  const { token } = platform
  expect(await list({ 'api-url': platform.url, token, organization: 'nobody' })).toMatch(/^baton: .*404/)
  expect(await list({ 'api-url': platform.url, token, json: true })).toContain('"name":"default"')
})
