import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { afterAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { batonCommand, collectOutput, runBaton, startBaton } from '../../support/baton-command.ts'
import { FaultProxy, NO_FAULT } from '../../support/fault-proxy.ts'
import { serveHttp } from '../../support/serve-http.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { openTestClient } from '../../support/test-server.ts'
import { waitFor } from '../../support/wait-for.ts'

const { database, db } = await openTestClient()
const folder = createTemporaryDirectory(afterAll)

const TABLES = [
  'create table person (id integer primary key, name text not null, age text)',
  'create table pet (id integer primary key, name text, owner integer references person (id) on delete cascade)',
  "insert into person values (1, 'Ada', '36'), (2, 'Bob', null)",
  "insert into pet values (1, 'Rex', 1), (2, 'Tom', 1), (3, 'Kit', 2)",
]

beforeEach(async () => {
  await db.batch([
    'drop view if exists owner',
    'drop table if exists pet',
    'drop table if exists person',
    'drop table if exists human',
  ])
  await db.batch(TABLES)
})

interface Report {
  readonly exit: number | string
  readonly losses: readonly string[]
  readonly requests: number
  readonly isSourceChanged: boolean
  readonly isSourceWritten: boolean
  readonly comparison: {
    readonly created: readonly string[]
    readonly changed: readonly string[]
    readonly dropped: readonly string[]
    readonly renamed: readonly string[]
    readonly types: readonly string[]
    readonly damage: readonly string[]
  }
}

/** Rehearses a script that `baton sql` runs on the copy. */
async function rehearse(script: string, ...options: readonly string[]) {
  const file = join(folder, 'migration.sql')
  await writeFile(file, script)
  return await rehearseCommand(batonCommand(['sql', '--file', file]), ...options)
}
async function rehearseCommand(command: readonly string[], ...options: readonly string[]) {
  const { code, output, errors } = await runBaton(['rehearse', '--json', ...options, '--', ...command], {
    env: { DATABASE_URL: database.url, DATABASE_TOKEN: database.authToken ?? '' },
  })
  return { code, errors, report: (output === '' ? null : JSON.parse(output)) as Report | null }
}
const countRows = async (): Promise<unknown> =>
  (await db.execute('select (select count(*) from person) as people, (select count(*) from pet) as pets'))
    .rows

test('a table rebuild that fires ON DELETE CASCADE is stopped, and the database is not changed', async () => {
  const { code, report, errors } = await rehearse(`begin;
    pragma defer_foreign_keys = on;
    create table new_person (id integer primary key, name text not null, age integer);
    insert into new_person select * from person;
    drop table person;
    alter table new_person rename to person;
    commit;`)
  expect(code).toBe(1)
  expect(report).toMatchObject({ exit: 0, losses: ['pet: 3 -> 0 rows'], isSourceChanged: false })
  expect(report?.comparison.types).toEqual(['person.age: 1 null, 1 text -> 1 null, 1 integer'])
  expect(errors).toContain('it loses data (--allow-loss TABLE[.COLUMN] accepts this): pet: 3 -> 0 rows')
  expect(await countRows()).toEqual([{ people: 2, pets: 3 }])
})

test('the same rebuild with foreign keys off is accepted', async () => {
  const { code, report } = await rehearse(`pragma foreign_keys = off;
    begin;
    create table new_person (id integer primary key, name text not null, age integer);
    insert into new_person select * from person;
    drop table person;
    alter table new_person rename to person;
    commit;`)
  expect(report).toMatchObject({ exit: 0, losses: [], comparison: { changed: ['table person'], damage: [] } })
  expect(code).toBe(0)
})

test.each([
  ['delete from pet where id = 1', ['pet: 3 -> 2 rows'], 'pet'],
  ['update pet set name = null where id < 3', ['pet.name: 2 values became NULL'], 'pet.name'],
])('%s is a loss, unless it is allowed', async (sql, losses, subject) => {
  const rejected = await rehearse(sql)
  expect(rejected.report?.losses).toEqual(losses)
  expect(rejected.code).toBe(1)
  const accepted = await rehearse(sql, '--allow-loss', subject)
  expect(accepted.report?.losses).toEqual([])
  expect(accepted.code).toBe(0)
})

test('--allow-loss of a table does not accept the loss of another one whose name begins with it', async () => {
  await db.batch(['create table "pet.name" (a)', 'insert into "pet.name" values (1)'])
  try {
    const both = 'delete from "pet.name"; update pet set name = null'
    const [table, column] = ['pet.name: 1 -> 0 rows', 'pet.name: 3 values became NULL']
    expect((await rehearse(both)).report?.losses.toSorted()).toEqual([table, column])
    expect((await rehearse(both, '--allow-loss', 'pet')).report?.losses).toEqual([table])
    // it means the table, if there is one of that name
    expect((await rehearse(both, '--allow-loss', 'pet.name')).report?.losses).toEqual([column])
  } finally {
    await db.execute('drop table "pet.name"')
  }
})

test('a command that fails, that sends nothing, or that does not exist makes it fail', async () => {
  const failing = await rehearse('create table t (a); insert into missing values (1)')
  expect(failing).toMatchObject({ code: 1, report: { exit: 1, comparison: { created: ['table t'] } } })
  expect(failing.errors).toContain('the command failed')
  const silent = await rehearseCommand([process.execPath, '--eval', '0'])
  expect(silent).toMatchObject({ code: 1, report: { requests: 0 } })
  expect(silent.errors).toContain('it sent nothing to the copy')
  const missing = await rehearseCommand(['no-such-program'])
  expect(missing).toMatchObject({ code: 1, report: null })
  expect(missing.errors).toContain('no-such-program was not found')
  expect((await runBaton(['rehearse', database.url])).code).toBe(2)
})

test('a command that ignores the variable, and changes the schema of the real database, is reported', async () => {
  const { code, report, errors } = await rehearseCommand(
    batonCommand(['sql', database.url, 'create table human (a)']),
    ...tokenOption(),
  )
  expect(report?.isSourceChanged).toBe(true)
  expect(errors).toContain('the schema of the real database was changed meanwhile')
  expect(code).toBe(1)
})

test('rows that are written to the real database meanwhile are reported, and are no failure by themselves', async () => {
  const write = `fetch(${JSON.stringify(new URL('v2/pipeline', database.url).href)}, { method: 'POST',
    headers: { authorization: 'Bearer ' + ${JSON.stringify(database.authToken ?? '')} },
    body: JSON.stringify({ requests: [{ type: 'execute', stmt: { sql: "insert into pet (name) values ('New')" } }] }),
  })`
  const touch = `fetch(process.env.DATABASE_URL + '/v2/pipeline', { method: 'POST',
    body: JSON.stringify({ requests: [{ type: 'execute', stmt: { sql: 'select 1' } }] }),
  })`
  const run = async (program: string) =>
    await rehearseCommand([process.execPath, '--input-type=module', '--eval', program], ...tokenOption())
  const beside = await run(`await ${write}; await ${touch}`)
  expect(beside).toMatchObject({ code: 0, report: { isSourceWritten: true, isSourceChanged: false } })
  expect(await run(`await ${touch}`)).toMatchObject({ code: 0, report: { isSourceWritten: false } })
  const mistaken = await run(`await ${write}`)
  expect(mistaken).toMatchObject({ code: 1, report: { requests: 0, isSourceWritten: true } })
})

test('the report is printed even if the database can no longer be read, which is a failure', async () => {
  const proxy = await FaultProxy.start(database.url)
  onTestFinished(() => proxy.close())
  let isLost = false
  proxy.next = (body) => {
    isLost ||= body.includes('lost')
    return isLost ? { kind: 'status', status: 502, html: true } : NO_FAULT
  }
  const send = (url: string): string =>
    `await fetch(${url} + '/v2/pipeline', { method: 'POST', body: '{"requests":[],"lost":0}' })`
  const program = `${send('process.env.DATABASE_URL')}; ${send(JSON.stringify(proxy.url))}`
  const args = ['rehearse', proxy.url, ...tokenOption(), '--json', '--']
  const command = [process.execPath, '--input-type=module', '--eval', program]
  const { code, output, errors } = await runBaton([...args, ...command])
  const sourceError =
    'the real database could not be read afterwards, so it is unknown whether it was changed: '
  expect(JSON.parse(output)).toMatchObject({ exit: 0, requests: 1, isSourceChanged: false })
  expect((JSON.parse(output) as { sourceError: string }).sourceError).toContain(sourceError)
  expect(errors).toContain(sourceError)
  expect(code).toBe(1)
})

const tokenOption = (): string[] =>
  database.authToken === undefined ? [] : ['--auth-token', database.authToken]

test('an interruption ends the command with all that it has started, and leaves nothing behind', async () => {
  const temporary = await mkdtemp(join(folder, 'interrupted-'))
  const pidFile = join(temporary, 'pid')
  const grandchild = `require('node:fs').writeFileSync(${JSON.stringify(pidFile)}, String(process.pid)); setInterval(() => {}, 1e6)`
  // does not forward signals, as npx does not
  const program = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(grandchild)}], { stdio: 'inherit' })
    setInterval(() => {}, 1e6)`
  const args = ['rehearse', database.url, ...tokenOption(), '--', process.execPath, '-e', program]
  const child = startBaton(args, { TMPDIR: temporary })
  const ended = collectOutput(child)
  const pid = await waitFor(async () => {
    const number = Number(await readFile(pidFile, 'utf8'))
    expect(number).toBeGreaterThan(0)
    return number
  })
  child.kill('SIGTERM')
  expect((await ended).code).toBe(143)
  await waitFor(() => expect(() => process.kill(pid, 0)).toThrow('ESRCH'))
  expect(await readdir(temporary)).toEqual(['pid'])
})

test('a command that ignores SIGTERM is killed by the third Ctrl-C, and leaves nothing behind', async () => {
  const temporary = await mkdtemp(join(folder, 'interrupted-'))
  const pidFile = join(temporary, 'pid')
  const program = `process.on('SIGTERM', () => {})
    require('node:fs').writeFileSync(${JSON.stringify(pidFile)}, String(process.pid)); setInterval(() => {}, 1e6)`
  const args = ['rehearse', database.url, ...tokenOption(), '--', process.execPath, '-e', program]
  const child = startBaton(args, { TMPDIR: temporary })
  const pid = await waitFor(async () => {
    const number = Number(await readFile(pidFile, 'utf8'))
    expect(number).toBeGreaterThan(0)
    return number
  })
  await waitFor(() => {
    child.kill('SIGINT')
    expect(child.signalCode).toBe('SIGINT')
  })
  await waitFor(() => expect(() => process.kill(pid, 0)).toThrow('ESRCH'))
  expect(await readdir(temporary)).toEqual(['pid'])
})

test('Ctrl-C before the command starts ends the rehearsal, and the command is not run', async () => {
  const temporary = await mkdtemp(join(folder, 'interrupted-'))
  let child: ReturnType<typeof startBaton> | undefined
  // the database does not respond
  const { url } = await serveHttp(() => void child?.kill('SIGINT'))
  const started = join(temporary, 'started')
  const program = `require('node:fs').writeFileSync(${JSON.stringify(started)}, '')`
  const args = ['rehearse', url, '--timeout', '0']
  child = startBaton([...args, '--', process.execPath, '-e', program], { TMPDIR: temporary })
  expect(await collectOutput(child)).toEqual({ code: 130, output: '', errors: '' })
  expect(await readdir(temporary)).toEqual([])
})

test.each([
  ['no problem', 0, batonCommand(['sql', 'create table human (a)']), /until Ctrl-C\n$/],
  [
    'a loss',
    1,
    batonCommand(['sql', 'delete from pet']),
    /until Ctrl-C\nbaton: it loses data .*pet: 3 -> 0 rows\n$/,
  ],
  [
    'a command that sends nothing',
    1,
    [process.execPath, '--eval', '0'],
    /until Ctrl-C\nbaton: it sent nothing to the copy/,
  ],
])(
  '--keep leaves the copy open until Ctrl-C, and after %s ends with exit code %i',
  async (_, exitCode, command, end) => {
    const child = startBaton(['rehearse', database.url, ...tokenOption(), '--keep', '--', ...command])
    const ended = collectOutput(child)
    const opened = Promise.withResolvers<string>()
    child.stderr.on('data', (part) => {
      const url = /the copy is at (\S+) until Ctrl-C/.exec(String(part))?.[1]
      if (url !== undefined) opened.resolve(url)
    })
    const copy = createClient({ url: await opened.promise })
    onTestFinished(() => copy.close())
    expect((await copy.execute('select count(*) as people from person')).rows).toEqual([{ people: 2 }])
    child.kill('SIGINT')
    const { code, errors } = await ended
    expect(errors).toMatch(end)
    expect(code).toBe(exitCode)
  },
)

test('Ctrl-C ends a rehearsal while it reads the schema that it copies', async () => {
  const proxy = await FaultProxy.start(database.url)
  onTestFinished(() => proxy.close())
  const until = new Promise<never>(() => {})
  proxy.next = (body) => {
    if (!body.includes('pragma_table_list')) return NO_FAULT
    child.kill('SIGINT')
    return { kind: 'hold-response', until }
  }
  const args = ['rehearse', proxy.url, ...tokenOption(), '--timeout', '0', '--schema-only']
  const child = startBaton([...args, '--', process.execPath, '--eval', '0'])
  expect(await collectOutput(child)).toEqual({ code: 130, output: '', errors: '' })
})

test('variables can be named, and a copy can be without rows', async () => {
  const program = `const stmt = { sql: 'create table human as select count(*) as n from pet' }
    await fetch(process.env.MY_URL + '/v2/pipeline', { method: 'POST',
      headers: { authorization: 'Bearer ' + process.env.MY_TOKEN },
      body: JSON.stringify({ requests: [{ type: 'execute', stmt }, { type: 'close' }] }),
    })`
  const { code, report } = await rehearseCommand(
    [process.execPath, '--input-type=module', '--eval', program],
    '--schema-only',
    '--url-variable',
    'MY_URL',
    '--token-variable',
    'MY_TOKEN',
  )
  expect(report).toMatchObject({ exit: 0, losses: [], comparison: { created: ['table human'] } })
  expect(code).toBe(0)
})

test('the report is text, or Markdown for a pull request', async () => {
  const file = join(folder, 'drop.sql')
  await writeFile(file, 'drop table pet')
  const moved =
    'values moved to another table, or combined into one column, count as lost: --allow-loss accepts them'
  for (const [option, expected] of [
    [[], `Losses\n  pet: dropped with 3 rows\n  ${moved}\n\nSchema\n  - table pet`],
    [['--markdown'], `**Losses**\n\n- pet: dropped with 3 rows\n- ${moved}\n\n**Schema**\n\n- \\- table pet`],
  ] as const) {
    const { output } = await runBaton([
      'rehearse',
      database.url,
      ...tokenOption(),
      ...option,
      '--',
      ...batonCommand(['sql', '--file', file]),
    ])
    expect(output).toContain(expected)
    expect(output).toContain('round trip')
  }
})
