// `baton migrate`: a command for every database of a group.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { Harness, sql } from '../../platform/platform-harness.ts'
import { batonCommand, expectFailure, runBaton } from '../../support/baton-command.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'

const harness = await Harness.start()
const folder = createTemporaryDirectory(afterAll)
afterAll(() => harness[Symbol.asyncDispose]())

interface Tenant {
  readonly name: string
  readonly run: (text: string) => Promise<readonly (readonly string[])[]>
}

/** Creates a group with databases. */
async function createTenants(group: string, count: number): Promise<readonly Tenant[]> {
  await harness.createGroup(group)
  const tenants: Tenant[] = []
  for (let number = 1; number <= count; number += 1) {
    const name = `${group}-${number}`
    const { host } = await harness.createDatabase(name, { group })
    const token = await harness.tokenFor(name)
    tenants.push({ name, run: async (text) => (await sql(host, token, text)).rows })
  }
  return tenants
}

async function migrate(args: readonly string[], command: readonly string[]) {
  const { url, token } = harness.platform
  return await runBaton(['migrate', ...args, '--', ...command], {
    env: { BATON_API_URL: url, BATON_API_TOKEN: token },
  })
}

/** Returns the command that runs a script on a database. */
async function scriptCommand(script: string): Promise<readonly string[]> {
  const file = join(folder, `${script.length}.sql`)
  await writeFile(file, script)
  return batonCommand(['sql', '--file', file])
}

const readReport = async (file: string): Promise<readonly Readonly<Record<string, unknown>>[]> =>
  (await readFile(file, 'utf8'))
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line))

test('each database is migrated; one that fails does not stop the others, and --resume runs only the rest', async () => {
  const tenants = await createTenants('team', 4)
  await tenants[1]?.run('create table note (by_hand)')
  const report = join(folder, 'report.jsonl')
  const command = await scriptCommand('create table note (a); insert into note values (1)')
  const first = await migrate(['team', '--report', report], command)
  expect(first.code).toBe(1)
  expect(first.output).toMatch(/team-2: FAILED \(exit code 1\)\n {2}.*already exists/)
  expect(first.output.match(/team-\d: succeeded/g)).toHaveLength(3)
  expect(first.errors).toContain('the command failed for 1 of 4 databases: team-2')
  expect(await readReport(report)).toHaveLength(4)

  await tenants[1]?.run('drop table note')
  // as after a crash
  await writeFile(report, '{"database":"team-2","id', { flag: 'a' })
  expect((await migrate(['team', '--report', report], command)).errors).toContain('--resume continues it')
  const other = await scriptCommand('select 1')
  expect((await migrate(['team', '--report', report, '--resume'], other)).errors).toContain(
    'is the report of another command',
  )
  const noReport = `${report}.other`
  await writeFile(noReport, 'null\n')
  expect((await migrate(['team', '--report', noReport, '--resume'], command)).errors).toContain(
    'is the report of another command',
  )
  const resumed = await migrate(['team', '--report', report, '--resume', '--json'], command)
  expect(resumed.code).toBe(0)
  expect(JSON.parse(resumed.output)).toMatchObject({ database: 'team-2', succeeded: true, exit: 0 })
  expect(resumed.errors).toContain('1 succeeded, 0 failed, 3 had succeeded before')
  for (const { run } of tenants) expect(await run('select count(*) from note')).toEqual([['1']])
  expect(await readReport(report)).toHaveLength(5)
})

test('--rehearse changes nothing if one of the databases would lose rows', async () => {
  const tenants = await createTenants('careful', 3)
  const schema = [
    'create table p (id integer primary key)',
    'create table c (p references p on delete cascade)',
  ]
  for (const { run } of tenants) for (const text of schema) await run(text)
  const rows = ['insert into p values (1)', 'insert into c values (1)']
  for (const text of rows) await tenants[2]?.run(text)
  const rebuild = await scriptCommand(
    'create table p2 (id integer primary key, n); insert into p2 select id, 1 from p; drop table p; alter table p2 rename to p',
  )
  const rejected = await migrate(['careful', '--rehearse'], rebuild)
  expect([rejected.code, rejected.output]).toEqual([1, ''])
  expect(rejected.errors).toContain(
    'nothing was changed, because the rehearsal found problems in 1 of 3 databases',
  )
  expect(rejected.errors).toContain('careful-3: it loses data')
  for (const { run } of tenants)
    expect(await run("select count(*) from pragma_table_info('p')")).toEqual([['1']])

  const accepted = await migrate(['careful', '--rehearse', '--allow-loss', 'c'], rebuild)
  expect([accepted.code, accepted.output.match(/succeeded/g)?.length]).toEqual([0, 3])
  for (const { run } of tenants)
    expect(await run("select count(*) from pragma_table_info('p')")).toEqual([['2']])
})

test('the error of a database that cannot be copied for a rehearsal names the database', async () => {
  await createTenants('blocked', 2)
  await harness.requestOk('PATCH', 'databases/blocked-2/configuration', { body: { block_reads: true } })
  const { code, errors } = await migrate(['blocked', '--rehearse'], [process.execPath, '--version'])
  expect([code, errors]).toEqual([1, expect.stringContaining('baton: blocked-2: Operation was blocked')])
})

test('children of a schema database are rehearsed, and changed with it', async () => {
  await harness.createGroup('shared')
  await harness.openDatabase('shape', 'create table note (a)', { group: 'shared', is_schema: true })
  const child = { group: 'shared', schema: 'shape' }
  await harness.openDatabase('child-1', 'insert into note values (1)', child)
  const { host, token } = await harness.openDatabase('child-2', [], child)
  const report = join(folder, 'shared.jsonl')

  const loss = await scriptCommand('drop table note')
  const rejected = await migrate(['shared', '--rehearse', '--report', report], loss)
  expect([rejected.code, rejected.output]).toEqual([1, ''])
  expect(rejected.errors).toContain('child-1: it loses data')

  const command = await scriptCommand('create table letter (a)')
  const accepted = await migrate(['shared', '--rehearse', '--report', report], command)
  expect(accepted).toMatchObject({ code: 0, output: expect.stringMatching(/^shape: succeeded in \d+ ms\n$/) })
  expect(accepted.errors).toContain(
    '1 succeeded, 0 failed, 0 had succeeded before, 2 change with their schema database',
  )
  expect((await sql(host, token, 'select * from letter')).error).toBe(null)

  const resumed = await migrate(['shared', '--rehearse', '--report', report, '--resume'], command)
  expect(resumed).toMatchObject({
    code: 0,
    errors: expect.stringContaining('0 succeeded, 0 failed, 3 had succeeded before'),
  })
})

test('a database that is deleted meanwhile does not stop the others', async () => {
  await createTenants('shrinking', 3)
  const { url, token, organization } = harness.platform
  const deleted = `${url}/v1/organizations/${organization}/databases/shrinking-2`
  const program = `fetch(${JSON.stringify(deleted)}, { method: 'DELETE', headers: { authorization: 'Bearer ${token}' } })`
  const run = await migrate(['shrinking', '--concurrency', '1'], [process.execPath, '-e', program])
  expect(run.code).toBe(1)
  expect(run.output).toMatch(
    /shrinking-1: succeeded[^]*shrinking-2: FAILED \(no token\)[^]*shrinking-3: succeeded/,
  )
  expect(run.errors).toContain('2 succeeded, 1 failed')
})

test('several commands run at a time', async () => {
  await createTenants('parallel', 2)
  // ends only while another one runs
  const program = `const fs = require('node:fs'), folder = ${JSON.stringify(join(folder, 'running'))}
    fs.mkdirSync(folder, { recursive: true })
    fs.writeFileSync(folder + '/' + process.pid, '')
    setInterval(() => fs.readdirSync(folder).length === 2 && process.exit(0), 10)`
  const run = await migrate(['parallel', '--concurrency', '2'], [process.execPath, '-e', program])
  expect([run.code, run.output.match(/succeeded/g)?.length]).toEqual([0, 2])
  const highest = String(Number.MAX_SAFE_INTEGER)
  expect(await migrate(['parallel', '--concurrency', highest], ['true'])).toMatchObject({ code: 0 })
})

test('what cannot be run is rejected', async () => {
  await expectFailure(migrate(['misspelt'], ['true']), 1, 'the group misspelt has no databases')
  for (const [args, command, message] of [
    [['team'], [], 'pass the command after --'],
    [['team'], [''], 'pass the command after --'],
    [['team', '--resume'], ['true'], '--resume needs the --report'],
    [['team', '--concurrency', 'x'], ['true'], '--concurrency x is not'],
  ] as const) {
    const { code, errors } = await migrate(args, command)
    expect([code, errors]).toEqual([2, expect.stringContaining(message)])
  }
  await expectFailure(migrate(['parallel'], ['no-such-program']), 1, 'no-such-program was not found')
})
