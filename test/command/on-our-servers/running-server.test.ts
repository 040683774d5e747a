// Commands that find a running `baton dev` of this machine, without the platform API.
import { once } from 'node:events'
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, inject, onTestFinished, test } from 'vitest'
import { query } from '../../server/wire.ts'
import { collectOutput, expectFailure, readUntil, runBaton, startBaton } from '../../support/baton-command.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'

const backend = inject('target')

function createFile(file: string, text: string): string {
  using db = new DatabaseSync(file)
  db.exec('create table note (text)')
  db.prepare('insert into note values (?)').run(text)
  return file
}

const readNotes = (file: string): unknown => {
  using db = new DatabaseSync(file)
  return db.prepare('select text from note').all()
}

/** The line that `baton dev --json` prints. */
interface Announcement {
  readonly url: string
  readonly databases: Readonly<Record<string, { readonly url: string }>>
}

/** Starts `baton dev` for the rest of the test, with its own runtime directory. */
async function startDev(...args: string[]) {
  const runtime = createTemporaryDirectory()
  const env = { XDG_RUNTIME_DIR: runtime }
  const child = startBaton(['dev', '--port', '0', '--json', '--backend', backend, ...args], env)
  const exited = once(child, 'exit')
  const stop = async (): Promise<void> => {
    if (child.exitCode === null) child.kill('SIGTERM')
    await exited
  }
  onTestFinished(stop)
  const output = await readUntil(child.stdout, /\n$/)
  const announcement = JSON.parse(output) as Announcement
  const port = new URL(announcement.url).port
  const baton = (...words: string[]) => runBaton(words, { env })
  return { ...announcement, port, runtime, env, baton, stop }
}

test('databases are listed, created, exported and deleted through the port', async () => {
  const folder = createTemporaryDirectory()
  const file = createFile(join(folder, 'my notes.db'), 'from the file')
  const { baton, port, url, runtime, stop } = await startDev('--database', 'app')
  const created = await baton('databases', 'create', 'empty', '--port', port)
  expect(created).toEqual({ code: 0, output: `${url}/empty/\n`, errors: '' })
  expect(await query(`${url}/empty/`, 'select 1')).toEqual([['1']])
  const copied = await baton('databases', 'create', 'notes', '--from-file', file, '--port', port, '--json')
  expect(JSON.parse(copied.output)).toEqual({ name: 'notes', url: `${url}/notes/` })
  expect(await query(`${url}/notes/`, 'select text from note')).toEqual([['from the file']])
  expect((await baton('databases', 'create', 'notes', '--port', port)).errors).toContain('already exists')
  await baton('databases', 'create', 'fork', '--from-database', 'notes', '--port', port)
  await query(`${url}/notes/`, "insert into note values ('later')")
  expect(await query(`${url}/fork/`, 'select text from note')).toEqual([['from the file']])
  await query(`${url}/notes/`, "delete from note where text = 'later'")
  expect(
    (await baton('databases', 'create', 'x', '--from-database', 'nowhere', '--port', port)).errors,
  ).toContain('database "nowhere" does not exist')
  const grouped = await baton('databases', 'create', 'grouped', '--group', 'default', '--port', port)
  expect(grouped).toMatchObject({ code: 0, errors: '' })
  expect((await baton('databases', 'create', 'x', '--group', 'g', '--port', port)).errors).toContain(
    'group "g" does not exist; the groups are: default',
  )

  const list = await baton('databases', 'list', '--port', port)
  expect(list.output).toMatch(/^NAME +URL\n/)
  expect(list.output).toContain(`notes    ${url}/notes/\n`)
  expect((await baton('databases', 'destroy', 'empty', '--port', port)).code).toBe(2)
  expect((await baton('databases', 'destroy', 'empty', '--yes', '--port', port)).output).toBe(
    'deleted empty\n',
  )
  expect((await fetch(`${url}/empty/health`)).status).toBe(404)

  const exported = join(folder, 'exported.db')
  expect(await baton('export', `${url}/notes/`, exported)).toMatchObject({ code: 0, errors: '' })
  expect(readNotes(exported)).toEqual([{ text: 'from the file' }])
  expect((await stat(exported)).mode & 0o777).toBe(0o600)
  expect((await baton('export', `${url}/notes/`, exported)).errors).toContain('already exists')
  await expectFailure(baton('export', `${url}/nowhere/`, join(folder, 'nowhere.db')), 1, 'does not exist')
  expect(await readdir(folder)).toEqual(['exported.db', 'my notes.db'])

  await stop()
  expect(await readdir(runtime)).toEqual([])
  const stopped = await baton('databases', 'list', '--port', port)
  expect([stopped.code, stopped.errors]).toEqual([
    1,
    `baton: no \`baton dev\` of this user is running on port ${port} of this machine\n`,
  ])
})

const HARD_VALUES = [
  'create table t (a integer primary key, b real, c)',
  "insert into t values (9007199254740993, 9e999, x'00ff'), (2, -9e999, 'a' || char(0) || 'b')",
  'create virtual table search using fts5(body)',
  "insert into search values ('it''s running')",
]
const NAMES = ['app', 'default']

test('a database is created from a dump in a file or on standard input, with equal values', async () => {
  const file = join(createTemporaryDirectory(), 'app.sql')
  const { baton, port, url, env } = await startDev('--database', 'app')
  for (const sql of HARD_VALUES) await query(`${url}/app/`, sql)
  const { output: dump } = await baton('dump', `${url}/app/`)
  await writeFile(file, dump)
  const create = ['databases', 'create', 'copy', '--from-dump', file, '--port', port]
  expect(await baton(...create)).toEqual({ code: 0, output: `${url}/copy/\n`, errors: '' })
  const piped = ['databases', 'create', 'piped', '--from-dump', '-', '--port', port]
  expect(await runBaton(piped, { env, input: dump })).toMatchObject({ code: 0, errors: '' })
  for (const name of ['copy', 'piped']) {
    expect((await baton('dump', `${url}/${name}/`)).output).toBe(dump)
    expect(await query(`${url}/${name}/`, "select body from search where search match 'running'")).toEqual([
      ["it's running"],
    ])
  }
  expect(await baton(...create)).toEqual({
    code: 1,
    output: '',
    errors: 'baton: database "copy" already exists\n',
  })
  expect((await baton('dump', `${url}/copy/`)).output).toBe(dump)
})

test('a server with tokens, and the dump of an empty database', async () => {
  const { port, url, env } = await startDev('--auth')
  const create = ['databases', 'create', 'empty', '--from-dump', '-', '--port', port]
  const input = 'PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCOMMIT;\n'
  const { code, output } = await runBaton(create, { env, input })
  expect([code, output]).toEqual([0, expect.stringMatching(`^${url}/empty/\ntoken: .+\n$`)])
})

test.each([
  ['insert into t values (1);', 'statement 1: SQLite error: no such table: t'],
  ['create table t (a); insert into t values (1', 'the script ends in the middle of a statement'],
  ['begin; create table t (a);', 'the script ends before its COMMIT'],
  ['', 'the script has no statements'],
  ['SQLite format 3\0', 'the input is an SQLite file, not a text file'],
])('a database whose dump is not restored is deleted: %j', async (input, message) => {
  const { baton, port, env } = await startDev('--database', 'app')
  const create = ['databases', 'create', 'x', '--from-dump', '-', '--port', port]
  const { code, output, errors } = await runBaton(create, { env, input })
  expect([code, output, errors]).toEqual([1, '', expect.stringContaining(message)])
  expect(errors).toContain('the database "x" was deleted\n')
  const list = await baton('databases', 'list', '--port', port, '--json')
  expect(
    JSON.parse(list.output)
      .map(({ name }: { name: string }) => name)
      .toSorted(),
  ).toEqual(NAMES)
})

test('Ctrl-C while a dump is restored deletes the incomplete database', async () => {
  const { baton, port, url, env } = await startDev('--database', 'app')
  const child = startBaton(['databases', 'create', 'x', '--from-dump', '-', '--port', port], env)
  const result = collectOutput(child)
  // the command may exit without having read its input
  child.stdin.on('error', () => {})
  // more than one batch, and the end of the input never arrives
  child.stdin.write('create table t (a);')
  for (let part = 0; part < 5; part += 1)
    child.stdin.write(`insert into t values ('${'x'.repeat(600_000)}');`)
  await expect
    .poll(() => query(`${url}/x/`, 'select 1 from t limit 1').catch(() => []), { timeout: 60_000 })
    .toEqual([['1']])
  child.kill('SIGINT')
  expect(await result).toEqual({ code: 130, output: '', errors: 'the database "x" was deleted\n' })
  expect((await baton('databases', 'list', '--port', port)).output).not.toContain('/x/')
})

test('a database is forked, and restored from a snapshot', async () => {
  const { baton, port, url } = await startDev('--database', 'app')
  const run = async (...words: string[]) => await baton(...words, '--port', port)
  await query(`${url}/app/`, 'create table note (text)')
  expect(await run('fork', 'app')).toEqual({ code: 0, output: `${url}/app-copy/\n`, errors: '' })
  expect((await run('fork', 'app')).errors).toContain('already exists')
  expect(await run('snapshot', 'create', 'app', 'empty')).toEqual({ code: 0, output: 'empty\n', errors: '' })
  expect((await run('snapshot', 'create', 'app')).output).toMatch(/^\d{4}-[\d-]+\n$/)
  await query(`${url}/app/`, "insert into note values ('later')")
  const list = (await run('snapshot', 'list', 'app')).output
  expect(list).toMatch(/^NAME +BYTES +CREATED\nempty +\d+ +\d{4}-\d\d-\d\dT[\d:.]+Z\n/)
  expect(JSON.parse((await run('snapshot', 'list', 'app', '--json')).output)).toHaveLength(2)
  await run('fork', 'app', 'old', '--snapshot', 'empty')
  expect(await query(`${url}/old/`, 'select text from note')).toEqual([])
  expect((await run('fork', 'app', 'x', '--snapshot', 'nowhere')).errors).toContain('could not find snapshot')

  expect(await run('snapshot', 'restore', 'app', 'empty')).toMatchObject({ code: 2, output: '' })
  expect(await query(`${url}/app/`, 'select text from note')).toEqual([['later']])
  const restored = await run('snapshot', 'restore', 'app', 'empty', '--yes')
  expect(restored).toEqual({ code: 0, output: 'restored app from empty\n', errors: '' })
  expect(await query(`${url}/app/`, 'select text from note')).toEqual([])
  expect((await run('snapshot', 'delete', 'app', 'empty')).output).toBe('deleted empty\n')
  expect((await run('snapshot', 'restore', 'app', 'empty', '--yes')).errors).toContain(
    'could not find snapshot',
  )
})

test('the socket is in the data directory, only its owner can open it, and commands find it by --data', async () => {
  const folder = createTemporaryDirectory()
  // longer than the path of a socket may be
  const data = join(folder, 'x'.repeat(120), 'data')
  await mkdir(data, { recursive: true })
  const { baton, port, url, runtime } = await startDev('--data', data)
  expect((await stat(join(data, 'control.sock'))).mode & 0o777).toBe(0o600)
  expect((await stat(join(runtime, 'baton'))).mode & 0o777).toBe(0o700)
  expect((await baton('databases', 'create', 'app', '--port', port)).output).toBe(`${url}/app/\n`)
  expect((await baton('databases', 'list', '--data', data)).errors).toContain('use --port instead of --data')

  const shortData = relative(process.cwd(), createTemporaryDirectory())
  const second = await startDev('--data', shortData)
  expect((await second.baton('databases', 'create', 'app', '--data', shortData)).code).toBe(0)
  await query(`${second.url}/app/`, 'create table note (text)')
  const exported = join(folder, 'app.db')
  expect(await second.baton('export', 'app', exported, '--data', shortData)).toMatchObject({
    code: 0,
    errors: '',
  })
  expect(readNotes(exported)).toEqual([])
})

test('a server is found although a killed one has left its link and its socket behind', async () => {
  const data = createTemporaryDirectory()
  const { runtime, stop } = await startDev('--data', data)
  await stop()
  await writeFile(join(data, 'control.sock'), 'left behind')
  const { baton, port } = await startDev('--data', data)
  expect((await baton('databases', 'list', '--port', port)).code).toBe(0)
  expect(runtime).not.toBe('')
})

test('commands do not trust a runtime directory that others can write to, and the server starts without one', async () => {
  const runtime = createTemporaryDirectory()
  await mkdir(join(runtime, 'baton'), { mode: 0o777 })
  const env = { XDG_RUNTIME_DIR: runtime }
  // mkdir applies the umask
  const { chmod } = await import('node:fs/promises')
  await chmod(join(runtime, 'baton'), 0o777)
  const child = startBaton(['dev', '--port', '0', '--json', '--backend', backend], env)
  let errors = ''
  child.stderr.on('data', (part) => (errors += part))
  await once(child.stdout, 'data')
  child.kill('SIGTERM')
  await once(child, 'close')
  expect(errors).toContain('must be a directory that only its owner can access')
  await expectFailure(runBaton(['databases', 'list', '--port', '1'], { env }), 1, 'only its owner can access')
})

test.each([
  [
    ['databases', 'create', 'app', '--from-file', 'a.db', '--api-url', 'http://127.0.0.1:1', '--token', 't'],
    '--from-file is for a server of this machine, --api-url for a platform API',
  ],
  [
    ['databases', 'list', '--port', '1', '--api-url', 'http://127.0.0.1:1'],
    '--port is for a server of this machine, --api-url for a platform API',
  ],
  [
    ['databases', 'create', 'app', '--from-dump', '-', '--from-file', 'a.db'],
    '--from-dump excludes --from-file',
  ],
  [
    ['databases', 'create', 'app', '--from-dump', '-', '--from-database', 'b'],
    '--from-dump excludes --from-file',
  ],
  [
    ['databases', 'create', 'app', '--from-file', 'a.db', '--from-database', 'b'],
    '--from-file excludes --from-database',
  ],
  [['databases', 'create', 'app', '--from-dump', 'nowhere.sql'], 'the file nowhere.sql does not exist'],
  [['databases', 'list', '--port', 'x'], '--port x is not a port'],
  [['export'], 'pass [URL|NAME] FILE.db'],
  [['export', 'app', '--data', 'd'], 'pass [URL|NAME] FILE.db'],
])('%j is rejected before anything is sent', async (args, message) => {
  const { code, errors } = await runBaton(args, { env: { DATABASE_URL: '', BATON_API_URL: '' } })
  expect([code, errors]).toEqual([2, expect.stringContaining(message)])
})

test('--open prints its database first, and a file named default replaces the empty database', async () => {
  const folder = createTemporaryDirectory()
  const first = createFile(join(folder, 'Chinook.db'), 'first')
  const second = createFile(join(folder, 'default.db'), 'second')
  const { databases, url } = await startDev('--open', first, '--open', second)
  expect(Object.keys(databases)).toEqual(['chinook', 'default'])
  expect(await query(`${url}/chinook/`, 'select text from note')).toEqual([['first']])
  expect(await query(url, 'select text from note')).toEqual([['second']])
})

test('--open keeps the copy of an earlier run, whatever its name', async () => {
  const folder = createTemporaryDirectory()
  const data = join(folder, 'data')
  const file = createFile(join(folder, 'default.db'), 'from the file')
  const before = await startDev('--open', file, '--data', data)
  await query(before.url, "insert into note values ('added')")
  await before.stop()
  const after = await startDev('--open', file, '--data', data)
  expect(await query(after.url, 'select text from note')).toEqual([['from the file'], ['added']])
})

test('a file that does not exist is named in one sentence', async () => {
  const { baton, port } = await startDev()
  const expected = { code: 2, output: '', errors: 'baton: the file nowhere.db does not exist\n' }
  expect(await runBaton(['dev', '--port', '0', '--open', 'nowhere.db'])).toEqual(expected)
  const create = ['databases', 'create', 'x', '--from-file', 'nowhere.db', '--port', port]
  expect(await baton(...create)).toEqual(expected)
})

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s, however often it is repeated, leaves no temporary data',
  async (signal) => {
    const directory = createTemporaryDirectory()
    const env = { XDG_RUNTIME_DIR: directory, TMPDIR: directory }
    const child = startBaton(['dev', '--port', '0', '--json', '--backend', backend], env)
    await once(child.stdout, 'data')
    const data = (await readdir(directory)).filter((name) => name.startsWith('baton-'))
    expect(data).toHaveLength(1)
    const exited = once(child, 'exit')
    // the signals that wrappers forward arrive during the shutdown
    while (child.exitCode === null && child.signalCode === null) {
      child.kill(signal)
      await new Promise(setImmediate)
    }
    await exited
    expect((await readdir(directory)).filter((name) => name.startsWith('baton-'))).toEqual([])
  },
)

test.each(['v2.db', '日本.db'])('a file whose name no database can have is named: %s', async (fileName) => {
  const file = createFile(join(createTemporaryDirectory(), fileName), 'x')
  const { code, errors } = await runBaton(['dev', '--port', '0', '--backend', backend, '--open', file])
  expect([code, errors]).toEqual([2, expect.stringContaining(`baton: --open ${file}: `)])
  expect(errors).toContain('rename the file')
})

test('export --data creates the folder of the file, whether or not the server is running', async () => {
  const data = createTemporaryDirectory()
  const { baton, stop } = await startDev('--data', data, '--database', 'app')
  const folder = createTemporaryDirectory()
  for (const name of ['running', 'stopped']) {
    const file = join(folder, name, 'new', 'app.db')
    const expected = { code: 0, output: `exported app to ${file}\n`, errors: '' }
    expect(await baton('export', 'app', file, '--data', data)).toEqual(expected)
    expect((await stat(file)).isFile()).toBe(true)
    await stop()
  }
})

test('two files of one name are rejected, with both named', async () => {
  const folder = createTemporaryDirectory()
  for (const name of ['a', 'b']) await mkdir(join(folder, name))
  const files = [join(folder, 'a', 'App.db'), join(folder, 'b', 'app.sqlite')].map((file) =>
    createFile(file, 'x'),
  )
  const { code, errors } = await runBaton([
    'dev',
    '--port',
    '0',
    ...files.flatMap((file) => ['--open', file]),
  ])
  expect(code).toBe(2)
  for (const file of files) expect(errors).toContain(file)
})
