import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'
import { describe, expect, test } from 'vitest'
import { query } from '../server/wire.ts'
import { batonCommand, collectOutput, readUntil, runBaton, startBaton } from '../support/baton-command.ts'
import { hasSqld } from '../support/has-sqld.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { Terminal, terminalProblem } from '../support/terminal.ts'
import { words } from '../support/words.ts'

describe('baton dev', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    'serves the printed URLs and stops cleanly on %s',
    async (signal) => {
      const child = startBaton(['dev', '--port', '0', '--database', 'app'])
      const result = collectOutput(child)
      const output = await readUntil(child.stdout, /^inspector: .*\n/m)
      const [, url = ''] = /^app: (\S+)$/m.exec(output) ?? []
      expect(await query(url, 'SELECT 1')).toEqual([['1']])
      const [, inspector = ''] = /^inspector: (\S+)/m.exec(output) ?? []
      expect((await fetch(inspector)).status).toBe(200)
      child.kill(signal)
      expect((await result).code).toBe(0)
    },
  )

  test('continues when the readers of its output and of its log have gone', async () => {
    const child = startBaton(['dev', '--port', '0', '--log', 'requests'])
    // leaving the loop closes the pipe
    const output = await readUntil(child.stdout, /^database: .*\n/m)
    child.stderr.destroy()
    const [, url = ''] = /^database: (\S+)$/m.exec(output) ?? []
    for (let request = 0; request < 5; request += 1) expect(await query(url, 'SELECT 1')).toEqual([['1']])
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await exited).toEqual([0, null])
  })
})

test('--json and --token-file print everything a program needs, with the secrets in a separate file', async () => {
  const folder = createTemporaryDirectory()
  const file = join(folder, 'tokens.json')
  // a file that other users can read is replaced
  await writeFile(file, 'old', { mode: 0o644 })
  const child = startBaton([
    ...words('dev --port 0 --platform-port 0 --json --token-file'),
    file,
    '--database',
    'app',
    '--platform-domain',
    'db.test',
  ])
  const result = collectOutput(child)
  const output = await readUntil(child.stdout, /\n$/)
  expect(output).not.toContain('token')
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect(await readdir(folder)).toEqual(['tokens.json'])
  const { url, inspector, databases, platform } = JSON.parse(await readFile(file, 'utf8'))
  // the inspector, which needs no token, is off
  expect([inspector, (await fetch(`${url}/_baton`)).status]).toEqual([undefined, 404])
  expect(Object.keys(databases)).toEqual(['default', 'app'])
  expect([databases.default.url, platform.organization]).toEqual([url, 'local'])
  const { url: appUrl, token } = databases.app
  expect(await query(appUrl, 'SELECT 1', { token })).toEqual([['1']])
  const headers = { authorization: `Bearer ${platform.token}` }
  const response = await fetch(`${platform.url}/v1/organizations/local/databases/app`, { headers })
  expect(await response.json()).toMatchObject({ database: { Name: 'app', Hostname: 'app-local.db.test' } })
  child.kill('SIGTERM')
  expect(await result).toMatchObject({ code: 0, errors: '' })
  expect(output.split('\n')).toHaveLength(2)
})

test('does not print tokens if the output is not a terminal, and prints a note instead', async () => {
  const child = startBaton(['dev', '--port', '0', '--platform-port', '0'])
  const result = collectOutput(child)
  const output = await readUntil(child.stdout, /^tokens: /m)
  expect(output).toContain(
    'tokens: not printed, because the output is not a terminal; --token-file FILE writes them',
  )
  expect(output).not.toMatch(/eyJ|inspector/)
  child.kill('SIGTERM')
  expect(await result).toMatchObject({ code: 0, errors: '' })
})

test.skipIf(terminalProblem !== null)(
  `tokens are printed on a terminal${terminalProblem === null ? '' : `: ${terminalProblem}`}`,
  async () => {
    const terminal = new Terminal(['dev', '--port', '0', '--platform-port', '0'], createTemporaryDirectory())
    const [, url = '', token = ''] =
      /database: (\S+)\s+token: (\S+)/.exec(await terminal.waitForText('organization: local')) ?? []
    expect(await query(url, 'SELECT 1', { token })).toEqual([['1']])
    await terminal.waitForText('token: ey')
    terminal.type('\u0003')
    await terminal.waitForExit()
  },
)

test('warns on stderr that other machines have access, also with --json', async () => {
  const server = startBaton(words('dev --port 0 --host 0.0.0.0 --json'))
  const result = collectOutput(server)
  await readUntil(server.stdout, /\n$/)
  server.kill('SIGTERM')
  expect(await result).toMatchObject({
    code: 0,
    errors: 'Anyone who can reach 0.0.0.0 has full access; --auth requires tokens.\n',
  })
})

test('reports a port in use, and passes --host, --domain and --allow-origin to the server', async () => {
  const server = startBaton(
    words('dev --port 0 --host 0.0.0.0 --domain db.test=default --allow-origin https://a.b'),
  )
  const result = collectOutput(server)
  const [output] = await Promise.all([
    readUntil(server.stdout, /^inspector: /m),
    readUntil(server.stderr, /--auth requires tokens/),
  ])
  const port = /^database: http:\/\/127\.0\.0\.1:(\d+)$/m.exec(output)?.[1] as string
  const usedPort = await runBaton(['dev', '--port', port, '--host', '0.0.0.0'])
  expect([usedPort.code, usedPort.errors]).toEqual([
    1,
    `baton: port ${port} on 0.0.0.0 is in use by another program; use port 0 to select a free one\n`,
  ])
  const usedPlatformPort = await runBaton([
    'dev',
    '--port',
    '0',
    '--platform-port',
    port,
    '--host',
    '0.0.0.0',
  ])
  expect([usedPlatformPort.code, usedPlatformPort.errors]).toEqual([usedPort.code, usedPort.errors])
  const page = await fetch(`http://127.0.0.1:${port}/version`, { headers: { origin: 'https://a.b' } })
  expect([page.status, page.headers.get('access-control-allow-origin')]).toEqual([200, 'https://a.b'])
  const domainStatus = await new Promise((resolve, reject) => {
    const outgoing = get(
      { host: '127.0.0.1', port, path: '/version', headers: { host: 'db.test' } },
      (response) => {
        response.resume()
        resolve(response.statusCode)
      },
    )
    outgoing.on('error', reject)
  })
  expect(domainStatus).toBe(200)
  server.kill('SIGTERM')
  expect((await result).code).toBe(0)
})

test.skipIf(!hasSqld)('dev --replica starts replicas, and prints their URLs', async () => {
  const replicas = ['--replica', 'fra', '--replica', 'lhr', '--replica-lag', 'fra=20']
  const child = startBaton(['dev', '--backend', 'sqld', '--port', '0', '--json', ...replicas])
  const result = collectOutput(child)
  const output = await readUntil(child.stdout, /\n$/)
  const { url, databases } = JSON.parse(output)
  expect(databases.default.replicas).toEqual({ fra: `${url}/fra_default/`, lhr: `${url}/lhr_default/` })
  const { fra, lhr } = databases.default.replicas
  expect(await runBaton(['sql', fra, 'create table t (a)'])).toMatchObject({ code: 0 })
  expect(await runBaton(['sql', lhr, 'insert into t values (7)'])).toMatchObject({ code: 0 })
  expect((await runBaton(['sql', url, 'select a from t'])).output).toContain('7')
  child.kill('SIGTERM')
  expect(await result).toMatchObject({ code: 0 })
})

test('process.exit() leaves no temporary directory behind', async () => {
  const folder = createTemporaryDirectory()
  const program = (backend: string): string =>
    `import { startLocalServer } from '@batonsql/local-server'
     await startLocalServer({ backend: '${backend}' }); process.exit(0)`
  for (const backend of ['embedded', ...(hasSqld ? ['sqld'] : [])]) {
    const args = [
      '--conditions=@batonsql/source',
      '--disable-warning=ExperimentalWarning',
      '--input-type=module',
      '-e',
    ]
    const cwd = fileURLToPath(new URL('..', import.meta.url))
    const child = spawn(process.execPath, [...args, program(backend)], {
      cwd,
      env: { ...process.env, TMPDIR: folder },
    })
    expect(await collectOutput(child)).toEqual({ code: 0, output: '', errors: '' })
    const remaining = await readdir(folder)
    expect(remaining.filter((name) => name.startsWith('baton-'))).toEqual([])
  }
})

test.each([
  [['--version'], 0, /^\d+\.\d+\.\d+/, /^$/],
  [['--help'], 0, /baton dev \[options\]/, /^$/],
  [[], 2, /^$/, /missing command/],
  [['start'], 2, /^$/, /unknown command "start"/],
  [
    ['dev', '--prot', '1'],
    2,
    /^$/,
    /baton dev: unknown option --prot \(options: --data, .*\); did you mean --port\?\n$/,
  ],
  [['dev', '--port', 'x'], 2, /^$/, /--port x is not a port/],
  [['dev', '--platform-port', 'x'], 2, /^$/, /--platform-port x is not a port/],
  [['dev', '--token-file', 'x'], 2, /^$/, /--token-file needs --auth or --platform-port/],
  [['dev', '--organization', 'x'], 2, /^$/, /need --platform-port/],
  [['dev', '--sqld-url', 'http://127.0.0.1:1'], 2, /^$/, /must be set together/],
  [['dev', '--replica-lag', '500'], 2, /^$/, /need --backend sqld/],
  [['dev', '--backend', 'sqld', '--replica-lag', 'soon'], 2, /^$/, /must be MS or LOCATION=MS, not soon/],
  [['dev', '--backend', 'sqld', '--replica-lag', '1', '--replica-lag', 'fra=2'], 2, /^$/, /each must be/],
  [
    ['dev', '--port', '0', '--platform-port', '0', '--organization', 'A b'],
    2,
    /^$/,
    /organization must be a slug/,
  ],
  [
    ['dev', '--port', '0', '--platform-port', '0', '--platform-domain', '*'],
    2,
    /^$/,
    /domain must be a host name/,
  ],
  [['dev', '--help'], 0, /--allow-origin ORIGIN/, /^$/],
  [['dev', '--domain', 'x'], 2, /^$/, /--domain must be HOST=DATABASE, not x/],
  [['dev', '--port', '0', '--allow-origin', 'x'], 2, /^$/, /"x" is not the origin of a page/],
  [['dev', '--port', '0', '--domain', 'a.b:80=default'], 2, /^$/, /domains: "a.b:80" is not a host name/],
  [['dev', '--port', '0', '--domain', 'https://a.b=default'], 2, /^$/, /"https:\/\/a.b" is not a host name/],
  [['dev', '--allow-origin', 'https://app.example:443'], 2, /^$/, /:443" is not the origin of a page/],
  [['dev', '--allow-origin', 'https://App.example'], 2, /^$/, /App.example" is not the origin of a page/],
  [
    ['dev', '--port', '0', '--database', 'a', '--database', 'BAD'],
    2,
    /^$/,
    /^baton: "BAD" is not a valid data/,
  ],
  [['dev', '--port', '0', '--host', ''], 2, /^$/, /--host is empty/],
  [['dev', '--port', '0', '--data', ''], 2, /^$/, /--data is empty/],
  [
    ['databases', 'create', 'x', '--data', '/missing'],
    1,
    /^$/,
    /no `baton dev` of this user is running in \/missing/,
  ],
  [
    ['dev', '--port', '0', '--data', '/dev/null/x'],
    1,
    /^$/,
    /^baton: the directory \/dev\/null\/x cannot be written: .*\n$/,
  ],
  [
    ['dev', '--port', '0', '--data', import.meta.filename],
    2,
    /^$/,
    /--data must be a directory, but .* is a file; --open .* serves a copy of it/,
  ],
  [
    ['dev', '--port', '0', '--auth', '--token-file', '/dev/null/x'],
    1,
    /^$/,
    /the tokens could not be written to \/dev\/null\/x/,
  ],
  [['dev', '--port', '0', '--auth', '--token-file', ''], 2, /^$/, /\n\nbaton dev: --token-file is empty\n$/],
  [['sql', ''], 2, /^$/, /\n\nbaton sql: argument 1 is empty\n$/],
  [['sql', 'default', ''], 2, /^$/, /\n\nbaton sql: argument 2 is empty\n$/],
  [['databases', 'create', ''], 2, /^$/, /\n\nbaton databases create: argument 1 is empty\n$/],
  [['rehearse', 'default', '--', ''], 2, /^$/, /^baton rehearse: pass the command after --/],
  [['dump', '-o', ''], 2, /^$/, /\n\nbaton dump: --output is empty\n$/],
  [
    ['migrate', 'default', '--allow-loss', '', '--', 'true'],
    2,
    /^$/,
    /\n\nbaton migrate: --allow-loss is empty\n$/,
  ],
  [
    ['dev', '--port', '0', '--domain', 'x=nope'],
    2,
    /^$/,
    /^baton: --domain x=nope: database "nope" does not exist/,
  ],
  [['dev', '--backend', 'sqld', '--dialect', 'cloud'], 2, /^$/, /--dialect requires --backend embedded/],
  [['database-tokens', '--help'], 0, /^baton database-tokens create DATABASE/, /^$/],
  [
    'database-tokens create app --expiration default --api-url http://127.0.0.1:1 --token t --organization o'.split(
      ' ',
    ),
    2,
    /^$/,
    /--expiration must be a duration such as 2w1d30m or 1h, or never, not default/,
  ],
  [['api-tokens', '--help'], 0, /^baton api-tokens create NAME/, /^$/],
  [['dump'], 2, /^$/, /missing database: .* DATABASE_URL/],
  [['dev', '--backend', 'x'], 2, /^$/, /--backend must be embedded or sqld, not x/],
  [['dev', '--dialect', 'x'], 2, /^$/, /baton: --dialect must be sqld or cloud, not x/],
  [['sqld'], 2, /^$/, /baton sqld: missing command\n\n {2}baton sqld install/],
  [
    ['databases', 'drop'],
    2,
    /^$/,
    /baton databases: unknown command "drop"\n\n(.*\n)*.*baton databases destroy NAME/,
  ],
  [['export', 'app'], 2, /^$/, /^baton export: pass \[URL\|NAME\] FILE.db, or --all DIR .*\n$/],
  [['user', 'ada', 'bob'], 2, /^$/, /baton user: unexpected argument "bob"/],
  [['completion', 'tcsh'], 2, /^$/, /the shell must be bash, zsh or fish, not tcsh/],
])('baton %j exits with %i', async (args, code, output, errors) => {
  const result = await runBaton(args)
  expect(result.code).toBe(code)
  expect(result.output).toMatch(output)
  expect(result.errors).toMatch(errors)
})

test.runIf(hasSqld)('rehearse copies a database of a libsql-server given by URL as a dump', async () => {
  await using sqld = await startSqld({ namespaces: true })
  const remote = { url: sqld.url, ...sqld.adminAccess }
  await using server = await startLocalServer({ backend: 'sqld', sqld: remote })
  await query(server.url, 'create table t (a)')
  const command = batonCommand(['sql', 'create table u (a)'])
  const { code, output } = await runBaton(['rehearse', server.url, '--json', '--', ...command])
  const rows = ['t', 'u'].map((table) => expect.objectContaining({ table, after: 0 }) as unknown)
  expect({ code, comparison: (JSON.parse(output) as { comparison: unknown }).comparison }).toMatchObject({
    code: 0,
    comparison: { created: ['table u'], rows },
  })
})
