import { spawn } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import {
  batonCommand,
  batonEnv,
  collectOutput,
  killAfterTests,
  runBaton,
} from '../../support/baton-command.ts'
import { FaultProxy, NO_FAULT } from '../../support/fault-proxy.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { Terminal, terminalProblem } from '../../support/terminal.ts'
import { openTestServer } from '../../support/test-server.ts'

const server = await openTestServer()
const { url, authToken, config } = await server.createDatabase()
const folder = createTemporaryDirectory(afterAll)
const env = { NO_COLOR: '1', ...(authToken !== undefined && { BATON_AUTH_TOKEN: authToken }) }
const runSql = (args: readonly string[], input?: string) =>
  runBaton(['sql', url, ...args], { env, ...(input !== undefined && { input }) })

beforeAll(async () => {
  const db = createClient(config)
  await db.batch([
    'create table person (id integer primary key, name text, photo blob)',
    "insert into person values (1, 'Ada', x'00ff'), (9007199254740993, '日本', null), (3, 'two' || char(10, 27) || 'lines', x'')",
  ])
  await db.close()
})

test('prints a table with right-aligned numbers, NULL, blobs and exact integers, without control sequences', async () => {
  expect(await runSql(['select * from person; select 1 as one'])).toEqual({
    code: 0,
    output: [
      '              id  name              photo',
      '----------------  ----------------  -------',
      "               1  Ada               x'00ff'",
      "               3  two\\n\\u001blines  x''",
      '9007199254740993  日本              NULL',
      '',
      'one',
      '---',
      '  1',
      '',
    ].join('\n'),
    errors: '',
  })
})

test('a terminal shows tabs and line breaks, but gets no control characters', async ({ skip }) => {
  if (terminalProblem !== null) skip(terminalProblem)
  const colored = "create table if not exists colored (\n\ta default '\u001b[31m\u009b\r')"
  await runSql([`${colored}; insert into colored default values`])
  for (const args of [
    ['.schema colored'],
    ['--csv', 'select a from colored'],
    ['--json', 'select a from colored'],
  ]) {
    const terminal = new Terminal(['sql', url, ...args], folder, { BATON_AUTH_TOKEN: authToken ?? '' })
    const shown = await terminal.waitForText('u009b')
    expect(await terminal.waitForExit()).toBe(0)
    expect(shown).not.toMatch(CONTROL)
    if (args.length === 1) expect(shown).toContain('(\r\n\ta default')
  }
  const dumped = new Terminal(['dump', url], folder, { BATON_AUTH_TOKEN: authToken ?? '' })
  const shown = await dumped.waitForText('COMMIT')
  await dumped.waitForExit()
  expect(shown).toContain('u001b[31m')
  expect(shown).not.toMatch(CONTROL)
})

/** Control characters, except tabs and the line breaks of a terminal. */
// oxlint-disable-next-line no-control-regex -- matches them deliberately
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]|\r(?!\n)/

test('prints a REAL with a decimal point, and an INTEGER without one', async () => {
  const { output } = await runSql(['select 1.0 as a, -0.0 as b, 1 as c, 0.5 as d, 1e300 as e, -2 as f'])
  expect(output.split('\n')[2]?.trim()).toBe('1.0  -0.0  1  0.5  1e+300  -2')
  expect((await runSql(['--json', 'select 1.0 as a, 1 as b, -9e999 as c'])).output).toBe(
    '{"a":1,"b":1,"c":"NaN"}\n', // servers send null for an infinity
  )
})

test('--json prints one line per row, with integers beyond 2^53 as strings', async () => {
  const { code, output } = await runSql(['--json', 'select id, photo from person; pragma user_version'])
  expect(code).toBe(0)
  expect(
    output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
  ).toEqual([
    { id: 1, photo: { base64: 'AP8=' } },
    { id: 3, photo: { base64: '' } },
    { id: '9007199254740993', photo: null },
    { user_version: 0 },
  ])
})

test('runs statements from a file and from standard input, with transactions', async () => {
  const file = join(folder, 'script.sql')
  const rows = Array.from({ length: 250 }, (_, index) => `insert into counted values (${index});`)
  await writeFile(file, `create table counted (n);\nbegin;\n${rows.join('\n')}\ncommit;`)
  expect(await runSql(['--file', file])).toEqual({ code: 0, output: '', errors: '' })
  expect((await runSql([], 'select count(*) as n from counted;\n')).output).toBe('  n\n---\n250\n')
  const unfinished = await runSql([], 'begin; delete from counted;')
  expect([unfinished.code, unfinished.errors]).toEqual([
    1,
    'baton: the last transaction was not committed, and was rolled back\n',
  ])
  expect((await runSql(['--json', 'select count(*) as n from counted'])).output).toBe('{"n":250}\n')
})

test('shows the line and column of a failing statement with a caret; earlier statements are kept', async () => {
  const file = join(folder, 'wrong.sql')
  await writeFile(
    file,
    'create table kept (a);\nselect 1 as one;\n  select nope,\n\t2 from kept;\ndrop table kept;',
  )
  const { code, output, errors } = await runSql(['--file', file])
  expect([code, output]).toEqual([1, 'one\n---\n  1\n'])
  expect(errors).toMatch(/^baton: .*no such column: nope \(SQL_INPUT_ERROR\)\n/)
  expect(errors).toContain(`${file}:3:10:\n  select nope,\n         ^\n`)
  const syntaxError = await runSql(["insert into kept values ('ü'); selec 1"])
  expect([syntaxError.code, syntaxError.output]).toEqual([1, ''])
  expect(syntaxError.errors).toMatch(
    /near "?selec"?.*\(SQL_PARSE_ERROR\)\nline 1, column 32:\n {2}selec 1\n {2}\^\n/i,
  )
  expect((await runSql(['--json', 'select count(*) as n from kept'])).output).toBe('{"n":1}\n')
  const unfinished = await runSql(["select 1;\nselect 'x"])
  expect([unfinished.code, unfinished.errors]).toEqual([1, 'baton: line 2, column 8: unterminated quote\n'])
})

test('a statement that is not allowed where it stands is shown with its position; earlier statements are kept', async () => {
  for (const [script, reason, position] of [
    ['select 1 as one; savepoint s', 'SAVEPOINT would begin a transaction', 'line 1, column 18'],
    ['select 1 as one; begin; begin', 'a transaction is open on this stream', 'line 1, column 25'],
    ['select 1 as one; commit', 'no transaction is open', 'line 1, column 18'],
    ['select 1 as one; begin; commit foo', 'unexpected text after COMMIT', 'line 1, column 25'],
    ['select 1 as one; begin foo', 'unexpected text after BEGIN', 'line 1, column 18'],
    [
      'begin; select 1 as one; pragma foreign_keys = off',
      'PRAGMA foreign_keys has no effect inside a transaction',
      'line 1, column 25',
    ],
  ] as const) {
    const { code, output, errors } = await runSql([script])
    expect([code, output]).toEqual([1, 'one\n---\n  1\n'])
    expect(errors).toContain(`baton: ${reason}`)
    expect(errors).toContain(`\n${position}:\n`)
  }
})

test('a statement that the client cannot send is shown with its position, in every form of output', async () => {
  const script = `select 1 as one;\nselect x'${'00'.repeat(6_000_000)}';\nselect 2`
  for (const [args, output] of [
    [[], 'one\n---\n  1\n'],
    [['--csv'], 'one\n1\n'],
    [['--json'], '{"one":1}\n'],
  ] as const) {
    const result = await runSql(args, script)
    expect([result.code, result.output]).toEqual([1, output])
    expect(result.errors).toContain('\nline 2, column 1:\n')
  }
})

test('a script says that it is unknown whether changes were applied if the response to a write or a COMMIT is lost', async () => {
  const proxy = await FaultProxy.start(url)
  onTestFinished(() => proxy.close())
  const runLost = async (script: string, lost: string): Promise<string> => {
    proxy.next = (body) => (body.includes(lost) ? { kind: 'drop-after' } : NO_FAULT)
    const { code, errors } = await runBaton(['sql', proxy.url, script], { env })
    expect(code).toBe(1)
    return errors
  }
  const unknown = '\nIt is unknown whether the changes were applied.\n'
  const write = 'update person set name = name where id = 5'
  expect(await runLost(write, 'update')).toContain(unknown)
  expect(await runLost(`begin; ${write}; commit`, 'COMMIT')).toContain(unknown)
  expect(await runLost(`begin; ${write}; commit`, 'update')).not.toContain('unknown')
  expect(await runLost('select 9', 'select 9')).not.toContain('unknown')
})

test('a terminal is told how many rows have changed, unless some of it was rolled back', async ({ skip }) => {
  if (terminalProblem !== null) skip(terminalProblem)
  const run = async (script: string): Promise<string> => {
    const terminal = new Terminal(['sql', url, `${script}; select 7 as done`], folder, {
      BATON_AUTH_TOKEN: authToken ?? '',
    })
    await terminal.waitForExit()
    return terminal.output
  }
  const change = 'update person set name = name where id < 4'
  expect(await run(change)).toContain('2 rows changed')
  expect(await run(`begin; ${change}; commit`)).toContain('2 rows changed')
  expect(await run(`begin; ${change}; rollback`)).not.toContain('changed')
  expect(await run(`begin; savepoint s; ${change}; rollback to s; commit`)).not.toContain('changed')
})

test('a restore that would fail again is not told to resume, and one that is repeated while another has begun says so', async () => {
  const target = await server.createDatabase()
  const targetEnv = {
    NO_COLOR: '1',
    ...(target.authToken !== undefined && { BATON_AUTH_TOKEN: target.authToken }),
  }
  const file = join(folder, 'failing.sql')
  const rows = `insert into t values ('${'x'.repeat(200_000)}');\n`.repeat(12)
  await writeFile(file, `create table t (a);\n${rows}insert into nowhere values (1);\n`)
  const { code, errors } = await runBaton(['restore', target.url, file], { env: targetEnv })
  expect([code, errors]).toEqual([
    1,
    expect.stringMatching(
      /^baton: the restore stopped after [1-9]\d* statements: statement 14: .*no such table: nowhere\nIt would fail again: correct the file/,
    ),
  ])
  expect((await runBaton(['restore', target.url, file], { env: targetEnv })).errors).toMatch(
    /^baton: another restore has applied \d+ statements: wait for it if it is running; if it stopped, continue with --resume/,
  )
})

test('dumps to standard output, or to a file that is never partial, and restores from a file or standard input', async () => {
  const file = join(folder, 'dump.sql')
  expect(await runBaton(['dump', url, '-o', file], { env })).toEqual({ code: 0, output: '', errors: '' })
  const { output } = await runBaton(['dump', url], { env })
  expect(await readFile(file, 'utf8')).toBe(output)
  const target = await server.createDatabase()
  const targetEnv = {
    NO_COLOR: '1',
    ...(target.authToken !== undefined && { BATON_AUTH_TOKEN: target.authToken }),
  }
  const restored = await runBaton(['restore', target.url, '-'], { env: targetEnv, input: output })
  expect(restored).toEqual({ code: 0, output: '', errors: '' })
  expect((await runBaton(['dump', target.url], { env: targetEnv })).output).toBe(output)
  const repeated = await runBaton(['restore', target.url, file], { env: targetEnv })
  expect([repeated.code, repeated.errors]).toEqual([
    1,
    'baton: the database already has tables: restore() needs an empty one\n',
  ])
  const failed = await runBaton(['dump', 'http://127.0.0.1:1', '-o', file])
  expect([failed.code, await readFile(file, 'utf8')]).toEqual([1, output])
  expect((await runBaton(['restore', target.url, join(folder, 'nowhere')])).code).toBe(2)
})

test('.schema prints statements that create the same schema elsewhere, with tabs, line breaks and comments', async () => {
  const file = join(folder, 'schema.sql')
  await writeFile(
    file,
    `create table tabs (\n\tid integer primary key autoincrement,\r\n\tname text default '\t\u001b[31m' -- a comment\n);
     create virtual table words using fts5(text);
     create table vectors (v f32_blob(2));
     create index near on vectors (libsql_vector_idx(v));
     create view noted as select 1 as one -- a comment at the end
     ;
     create index names on tabs (name);
     create table names_shadow (a);
     create table libsql_notes (a);`,
  )
  const first = await server.createDatabase()
  const run = (database: typeof first, ...args: string[]) =>
    runBaton(['sql', database.url, ...args], { env: { BATON_AUTH_TOKEN: database.authToken ?? '' } })
  expect(await run(first, '--file', file)).toMatchObject({ code: 0, errors: '' })
  const schema = await run(first, '.schema')
  expect(schema.output).toContain(
    "\n\tid integer primary key autoincrement,\r\n\tname text default '\t\u001b[31m'",
  )
  // its index is no vector index
  expect(schema.output).toContain('names_shadow')
  expect(schema.output).toContain('libsql_notes')
  expect((await run(first, '.tables')).output).toContain('libsql_notes\nnames_shadow')
  // a table that another one created is shown if it is named
  expect((await run(first, '.schema words_data')).output).toMatch(/^CREATE TABLE 'words_data'/)
  const copy = join(folder, 'copy.sql')
  await writeFile(copy, schema.output)
  const second = await server.createDatabase()
  expect(await run(second, '--file', copy)).toMatchObject({ code: 0, errors: '' })
  expect((await run(second, '.schema')).output).toBe(schema.output)
})

test.skipIf(process.platform === 'win32')(
  '.read runs the statements of a pipe, which has no path',
  async () => {
    const command = batonCommand(['sql', url, '.read /dev/stdin'])
    const child = spawn('sh', ['-c', 'echo "select 4 as four;" | "$@"', 'sh', ...command], {
      env: batonEnv(env),
    })
    killAfterTests(child)
    expect(await collectOutput(child)).toEqual({ code: 0, output: 'four\n----\n   4\n', errors: '' })
  },
)

test('a script that runs itself is an error, and one that runs another twice is not', async () => {
  const [first, second] = [join(folder, 'first.sql'), join(folder, 'second.sql')]
  await writeFile(first, `.read ${second}\n.read ${second}\n`)
  await writeFile(second, 'select 7 as seven;')
  expect((await runSql(['--csv', '--file', first])).output).toBe('seven\n7\nseven\n7\n')
  await writeFile(second, `select 7 as seven;\n.read ${first}\n`)
  const { code, errors } = await runSql(['--csv', '--file', first])
  expect([code, errors]).toEqual([1, expect.stringContaining(`${second} is already being run`)])
})

test('.quit in a script that another one runs ends both', async () => {
  const [first, second] = [join(folder, 'quit-1.sql'), join(folder, 'quit-2.sql')]
  await writeFile(first, `.read ${second}\nselect 1 as one;`)
  await writeFile(second, 'select 2 as two;\n.quit\nselect 3 as three;')
  expect(await runSql(['--csv', '--file', first])).toMatchObject({ code: 0, output: 'two\n2\n' })
})
