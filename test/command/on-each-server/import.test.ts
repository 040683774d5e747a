import { spawn } from 'node:child_process'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient, executeMultiple } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, expect, inject, onTestFinished, test } from 'vitest'
import {
  batonCommand,
  batonEnv,
  collectOutput,
  killAfterTests,
  runBaton,
  startBaton,
} from '../../support/baton-command.ts'
import { FaultProxy, NO_FAULT } from '../../support/fault-proxy.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { openTestServer } from '../../support/test-server.ts'

const server = await openTestServer()
const folder = createTemporaryDirectory(afterAll)

async function openDatabase() {
  const { url, authToken, config } = await server.createDatabase()
  // its own, where nothing else creates files
  const temporaryDirectory = createTemporaryDirectory()
  const env = {
    NO_COLOR: '1',
    TMPDIR: temporaryDirectory,
    ...(authToken !== undefined && { BATON_AUTH_TOKEN: authToken }),
  }
  const db = createClient({ ...config, intMode: 'bigint' })
  onTestFinished(() => db.close())
  const baton = (args: readonly string[], input?: string) => {
    const [command, ...rest] = args as [string, ...string[]]
    return runBaton([command, url, ...rest], { env, ...(input !== undefined && { input }) })
  }
  const select = async (sql: string) => (await db.execute(sql, [], { rowMode: 'array' })).rows
  return { db, baton, select, temporaryDirectory, url, environment: env }
}

async function writeCsv(name: string, text: string): Promise<string> {
  const file = join(folder, name)
  await writeFile(file, text)
  return file
}

test('a file is imported exactly, and exported as it was', async () => {
  const { baton, select } = await openDatabase()
  const text = 'id,zip,note\n1,01234,"two\nlines"\n9007199254740993,94103,"say ""hi"", twice"\n3,,""\n'
  const file = await writeCsv(
    'people.csv',
    `\ufeff${text.replaceAll('\n', '\r\n').replace('two\r\n', 'two\n')}`,
  )
  expect(await baton(['import', file])).toEqual({
    code: 0,
    output: 'imported 3 rows into people (id INTEGER, zip TEXT, note TEXT)\n',
    errors: '',
  })
  expect(await select('select * from people order by rowid')).toEqual([
    [1n, '01234', 'two\nlines'],
    [9007199254740993n, '94103', 'say "hi", twice'],
    [3n, null, ''],
  ])
  const exported = await baton(['sql', '--csv', 'select * from people order by rowid'])
  // only texts that look like numbers have quotes now
  expect(exported.output).toBe(text.replace('94103', '"94103"'))
  await baton(['sql', 'drop table people'])
  expect((await baton(['import', '-', '--table', 'people'], exported.output)).code).toBe(0)
  expect((await baton(['sql', '--csv', 'select * from people order by rowid'])).output).toBe(exported.output)
})

test.skipIf(process.platform === 'win32')(
  'a pipe is imported, although it can be read only once',
  async () => {
    const { environment, select, url } = await openDatabase()
    const command = batonCommand(['import', url, '/dev/stdin', '--table', 'piped'])
    const child = spawn('sh', ['-c', 'printf "a,b\\n1,2\\n3,4\\n" | "$@"', 'sh', ...command], {
      env: batonEnv(environment),
    })
    killAfterTests(child)
    const output = 'imported 2 rows into piped (a INTEGER, b INTEGER)\n'
    expect(await collectOutput(child)).toEqual({ code: 0, output, errors: '' })
    expect(await select('select * from piped')).toEqual([
      [1n, 2n],
      [3n, 4n],
    ])
  },
)

test('whole REALs beside integers keep their type', async () => {
  const { baton, select } = await openDatabase()
  const text = 'amount\n1\n1.0\n1e+21\n'
  expect((await baton(['import', await writeCsv('amounts.csv', text)])).code).toBe(0)
  expect(await select('select typeof(amount) from amounts order by rowid')).toEqual([
    ['integer'],
    ['real'],
    ['real'],
  ])
  expect((await baton(['sql', '--csv', 'select * from amounts order by rowid'])).output).toBe(text)
})

test('a STRICT column of type ANY stores numbers and texts as they are in the file', async () => {
  const { db, baton, select } = await openDatabase()
  await db.batch(['create table v (a any) strict', 'create table n (a any)'])
  const file = await writeCsv('any.csv', 'a\n1.0\n007\n"7"\n+1\n')
  expect((await baton(['import', file, '--table', 'v'])).code).toBe(0)
  expect(await select('select a, typeof(a) from v order by rowid')).toEqual([
    [1, 'real'],
    ['007', 'text'],
    ['7', 'text'],
    ['+1', 'text'],
  ])
  // in another table, it would make 7 of 007
  expect((await baton(['import', file, '--table', 'n'])).errors).toContain('"007" would be changed')
})

test('20,000 rows are imported and exported exactly', async () => {
  const { baton, select } = await openDatabase()
  const lines = Array.from(
    { length: 20_000 },
    (_, n) => `${n},${9_007_199_254_740_993n + BigInt(n)},"a ""q"" ${n}\r\n",${n / 8}`,
  )
  const text = `id,big,note,part\n${lines.join('\n')}\n`
  const file = await writeCsv('many.csv', text)
  expect((await baton(['import', file])).output).toContain('imported 20,000 rows')
  expect(await select("select count(*), sum(typeof(big) = 'integer'), max(big) from many")).toEqual([
    [20_000n, 20_000n, 9_007_199_254_740_993n + 19_999n],
  ])
  expect(await select("select name from sqlite_schema where name like 'baton%'")).toEqual([])
  expect((await baton(['sql', '--csv', 'select * from many order by id'])).output).toBe(text)
})

test('rows that cannot be stored are reported with their lines, and nothing is imported unless they are skipped', async () => {
  const { baton, select } = await openDatabase()
  const file = await writeCsv('bad.csv', 'a,b\n1,2\n1,2,3\n"x\ny",3\n\n4\n')
  const { code, output, errors } = await baton(['import', file])
  expect([code, output]).toEqual([1, ''])
  expect(errors).toContain('2 rows cannot be stored, so nothing was imported')
  expect(errors).toContain('line 3: 3 cells instead of 2')
  expect(errors).toContain('line 7: 1 cell instead of 2')
  expect(await select('select name from sqlite_schema')).toEqual([])
  const skipped = await baton(['import', file, '--skip-bad-rows'])
  expect(skipped).toMatchObject({ code: 0, output: 'imported 2 rows into bad (a TEXT, b INTEGER)\n' })
  expect(skipped.errors).toContain('skipped line 3: 3 cells')
  expect(await select('select * from bad')).toEqual([
    ['1', 2n],
    ['x\ny', 3n],
  ])
})

test('--skip-bad-rows skips rows that the database rejects, but none if writes are blocked', async () => {
  await using local = await startLocalServer({ backend: inject('target') === 'sqld' ? 'sqld' : 'embedded' })
  const { url } = await local.createDatabase('items')
  await using db = createClient({ url })
  await db.batch([
    'create table item (id integer primary key check (id <> 3), note, json as (json(note)) stored)',
    "create trigger not_2 before insert on item when new.id = 2 begin select raise(abort, 'not 2'); end",
  ])
  const file = await writeCsv('item.csv', 'id,note\n1,[]\n2,[]\n3,[]\n4,[\n')
  const run = () => runBaton(['import', url, file, '--skip-bad-rows'])
  await local.updateDatabase('items', { blockWrites: true })
  const blocked = await run()
  expect(blocked.code).toBe(1)
  expect(blocked.errors).toContain('blocked')
  await local.updateDatabase('items', { blockWrites: false })
  const { code, errors } = await run()
  expect(errors).toMatch(/^skipped line 3: .*not 2\nskipped line 4: .*CHECK.*\nskipped line 5: .*JSON/)
  expect(code).toBe(0)
  expect((await db.execute('select id from item')).rows).toEqual([{ id: 1 }])
})

test.each([
  [/no such table: .*audit/, 'drop table audit'],
  [
    /no such function: nope/,
    'create trigger other after insert on person begin insert into audit values (nope()); end',
  ],
  [/foreign key mismatch/, 'create table pet (a); alter table person add pet references pet (a)'],
])('--skip-bad-rows skips no row if no row can be inserted: %s', async (problem, change) => {
  const { db, baton, select } = await openDatabase()
  await executeMultiple(
    db,
    `create table person (name); create table audit (name);
    create trigger log after insert on person begin insert into audit values (new.name); end`,
  )
  const file = await writeCsv('person.csv', 'name\nAda\nBob\n')
  expect((await baton(['import', file])).code).toBe(0)
  await executeMultiple(db, change)
  const { code, output, errors } = await baton(['import', file, '--skip-bad-rows'])
  expect([code, output, errors]).toEqual([1, '', expect.stringMatching(problem)])
  expect(errors).not.toContain('skipped')
  expect(await select('select count(*) from person')).toEqual([[2n]])
})

test('an existing table keeps its types: values that it would change are bad rows', async () => {
  const { db, baton, select } = await openDatabase()
  await db.execute(
    "create table person (ID integer primary key, born date, height real, extra text default 'none')",
  )
  const good = await writeCsv('good.csv', 'height,id,born\n1.50,1,2001-02-03\n,2,\n')
  expect((await baton(['import', good, '--table', 'person'])).code).toBe(0)
  expect(await select('select * from person')).toEqual([
    [1n, '2001-02-03', 1.5, 'none'],
    [2n, null, null, 'none'],
  ])
  const bad = await writeCsv('worse.csv', 'id,height\n007,1\n9223372036854775808,1\n3,tall\n')
  const { errors } = await baton(['import', bad, '--table', 'person'])
  expect(errors).toContain('line 2, column ID: "007" would be changed')
  expect(errors).toContain('line 3, column ID: "9223372036854775808" would be changed')
  expect(errors).toContain('line 4, column height: "tall" is not a number')
  const unknown = await writeCsv('unknown.csv', 'id,weight\n1,2\n')
  expect((await baton(['import', unknown, '--table', 'person'])).errors).toContain(
    'table person has no column weight',
  )
})

test('rows that the database rejects are named by their line, earlier transactions are kept, and --resume continues', async () => {
  const { db, baton, select } = await openDatabase()
  await db.batch(['create table item (id integer primary key)', 'insert into item values (1500)'])
  const file = await writeCsv('item.csv', `id\n${Array.from({ length: 2_500 }, (_, n) => n).join('\n')}\n`)
  const stopped = await baton(['import', file])
  expect(stopped.code).toBe(1)
  expect(stopped.errors).toMatch(
    /line 1502: .*UNIQUE constraint failed: item\.id; --skip-bad-rows imports the other rows/,
  )
  expect(stopped.errors).toContain(
    '1,000 rows of the file were handled, as the table "baton_import_item" records',
  )
  expect(await select('select count(*) from item')).toEqual([[1_001n]])
  expect((await baton(['import', file])).errors).toContain('continue it with --resume')
  const other = await writeCsv('other.csv', 'id\n1\n')
  expect((await baton(['import', other, '--table', 'item', '--resume'])).errors).toContain(
    'was of another file',
  )
  const resumed = await baton(['import', file, '--resume', '--skip-bad-rows'])
  expect(resumed.errors).toMatch(/^skipped line 1502: .*UNIQUE constraint failed/)
  expect(resumed.output).toContain('imported 1,499 rows into item')
  expect(await select('select count(*), max(id) from item')).toEqual([[2_500n, 2_499n]])
  expect(await select('select name from sqlite_schema')).toEqual([['item']])
  expect((await baton(['import', file, '--resume'])).errors).toContain(
    'there is no interrupted import into item',
  )
})

test('Ctrl-C keeps whole transactions, and says how to continue', async () => {
  const file = await writeCsv('long.csv', `id\n${Array.from({ length: 5_000 }, (_, n) => n).join('\n')}\n`)
  const { url, config } = await server.createDatabase()
  await using proxy = await FaultProxy.start(url)
  await using target = createClient(config)
  const env = config.authToken === undefined ? {} : { BATON_AUTH_TOKEN: config.authToken }
  const child = startBaton(['import', proxy.url, file], env)
  const closed = new Promise((resolve) => child.once('close', resolve))
  let chunks = 0
  proxy.next = (body) => {
    if (!body.includes('insert into \\"long\\"')) return NO_FAULT
    chunks += 1
    if (chunks !== 3) return NO_FAULT
    child.kill('SIGINT')
    return { kind: 'hold-response', until: closed }
  }
  let errors = ''
  child.stderr.on('data', (part) => (errors += part))
  expect(await closed).toBe(130)
  expect(errors).toContain('Run the same command with --resume to continue.')
  const counts = 'select (select count(*) from long), (select rows from baton_import_long)'
  const [[rows, progress] = []] = (await target.execute(counts, [], { rowMode: 'array' })).rows
  expect([2_000, 3_000]).toContain(rows)
  expect(progress).toBe(rows)
  expect((await runBaton(['import', url, file, '--resume'], { env })).code).toBe(0)
  expect((await target.execute('select count(*), max(id) from long', [], { rowMode: 'array' })).rows).toEqual(
    [[5_000, 4_999]],
  )
})

test('an import whose last response is lost is complete, and a resumed one keeps what it has imported', async () => {
  const file = await writeCsv('item.csv', `id\n${Array.from({ length: 1_500 }, (_, n) => n).join('\n')}\n`)
  const { url, environment: env, select, baton } = await openDatabase()
  await using proxy = await FaultProxy.start(url)
  proxy.next = (body) => (body.includes('drop table') ? { kind: 'drop-after' } : NO_FAULT)
  const { code, errors } = await runBaton(['import', proxy.url, file], { env })
  expect(code).toBe(1)
  expect(errors).toMatch(
    /\nAll rows were handled\. If the table "baton_import_item" still exists, drop it\.\n$/,
  )
  expect(await select('select count(*) from item')).toEqual([[1_500n]])

  proxy.next = (body) => (body.includes('update') ? { kind: 'drop-before' } : NO_FAULT)
  const other = await writeCsv('other.csv', `id\n${'1\n'.repeat(1_500)}x,y\n`)
  expect((await runBaton(['import', proxy.url, other, '--skip-bad-rows'], { env })).code).toBe(1)
  expect((await baton(['import', other, '--resume'])).errors).toContain('so nothing more was imported')
  expect(await select('select count(*) from other')).toEqual([[1_000n]])
})

test('files without a header row, with another delimiter and with given types can be imported', async () => {
  const { baton, select } = await openDatabase()
  const file = await writeCsv('plain.csv', '1;2.50\n2;3\n')
  const args = ['import', file, '--columns', 'id,price', '--delimiter', ';', '--type', 'price=REAL']
  expect((await baton(args)).output).toBe('imported 2 rows into plain (id INTEGER, price REAL)\n')
  const otherTypes = ['--type', 'id=DECIMAL(10, 2)', '--type', 'price=F32_BLOB(3)']
  const other = await baton([...args.slice(0, -2), ...otherTypes, '--table', 'other'])
  expect(other.output).toBe('imported 2 rows into other (id DECIMAL(10, 2), price F32_BLOB(3))\n')
  expect(await select('select * from plain')).toEqual([
    [1n, 2.5],
    [2n, 3],
  ])
  const tabs = await writeCsv('tabs.tsv', 'a\tb\nx,y\t2\n')
  expect((await baton(['import', tabs, '--delimiter', 'tab'])).code).toBe(0)
  expect(await select('select * from tabs')).toEqual([['x,y', 2n]])
  const onlyHeader = await writeCsv('empty.csv', 'a,b\n')
  expect((await baton(['import', onlyHeader])).output).toBe('imported 0 rows into empty (a TEXT, b TEXT)\n')
})

test('an import that may be a mistake says so: the delimiter, numbers that stay TEXT, a table that has rows', async () => {
  const { baton } = await openDatabase()
  const semicolons = await writeCsv('semicolons.csv', 'id;name\n1;Ada\n')
  const hint = `the file has one column, "id;name"; --delimiter ';' splits it into several\n`
  expect(await baton(['import', semicolons])).toEqual({
    code: 0,
    output: 'imported 1 row into semicolons (id;name TEXT)\n',
    errors: `note: ${hint}`,
  })
  const tabs = await writeCsv('tabbed.csv', 'id\tname\n1\tAda, Countess\n')
  expect((await baton(['import', tabs])).errors).toMatch(
    /cannot be stored[^]*line 2: 2 cells instead of 1\n *the file has one column, "id\\tname"; --delimiter tab splits it/,
  )
  const prices = await writeCsv(
    'prices.csv',
    'id,price,quoted,zip,mixed,text\n1,9.50,"1",01234,9.50,9.50\n2,250.00,"2",94103,"3",x\n3,1,,,7,1.50\n',
  )
  expect(await baton(['import', prices])).toEqual({
    code: 0,
    output:
      'imported 3 rows into prices (id INTEGER, price TEXT, quoted TEXT, zip TEXT, mixed TEXT, text TEXT)\n',
    errors:
      'note: price is TEXT, because a number would be printed differently than in the file (9.50); --type price=REAL makes it a number\n' +
      'note: quoted is TEXT, because its numbers are in quotes ("1"); --type quoted=INTEGER makes it a number\n' +
      'note: mixed is TEXT, because a number would be printed differently than in the file (9.50); --type mixed=REAL makes it a number\n',
  })
  const again = await baton(['import', prices])
  expect(again.output).toMatch(/\), which had 3 rows before and has 6 rows now\n$/)
  expect(again.errors).toBe('')
  expect((await baton(['import', semicolons, '--table', 'prices'])).errors).toContain(`no column id;name`)
  expect((await baton(['import', semicolons, '--table', 'prices'])).errors).toContain(hint)
  const right = ['--type', 'price=REAL', '--type', 'quoted=INTEGER', '--type', 'mixed=REAL']
  expect((await baton(['import', prices, '--table', 'typed', ...right])).errors).toBe('')
})

test('a file that does not exist, or is a directory, is named in one sentence', async () => {
  const { baton } = await openDatabase()
  const missing = join(folder, 'missing')
  const commands = [['import'], ['sql', '--file'], ['restore']]
  for (const command of commands) {
    const expected = { code: 2, output: '', errors: `baton: the file ${missing} does not exist\n` }
    expect(await baton([...command, missing])).toEqual(expected)
    expect((await baton([...command, folder])).errors).toBe(`baton: ${folder} is a directory, not a file\n`)
  }
  for (const command of [`.read ${missing}`, `.import ${missing} t`])
    expect((await baton(['sql', command])).errors).toBe(`baton: line 1: the file ${missing} does not exist\n`)
})

test.each<[string, string | Uint8Array, readonly string[], number, string]>([
  ['empty', '', [], 1, 'the file is empty'],
  ['twice', 'a,A\n1,2\n', [], 1, 'the file has two columns A'],
  ['unnamed', 'a,\n1,2\n', [], 1, 'a column has no name'],
  ['quote', 'a\n"b', [], 1, 'line 2: a quote is not closed'],
  ['latin1', Buffer.from('a\ncaf\xe9\n', 'latin1'), [], 1, 'is not UTF-8 text; it may be Latin-1'],
  ['utf16', Buffer.from('\ufeffa\nb\n', 'utf16le'), [], 1, 'is UTF-16 text'],
  ['type', 'a\n1\n', ['--type', 'b=TEXT'], 2, '--type names the column b, but the file has a'],
  ['type', 'a\n1\n', ['--type', 'a'], 2, '--type must be COLUMN=TYPE'],
  ['delimiter', 'a\n1\n', ['--delimiter', 'ab'], 2, '--delimiter must be one character'],
])('a file is rejected: %s', async (name, content, args, code, message) => {
  const { baton, select } = await openDatabase()
  const file = join(folder, `${name}-rejected.csv`)
  await writeFile(file, content)
  expect(await baton(['import', file, '--table', 't', ...args])).toMatchObject({
    code,
    errors: expect.stringContaining(message),
  })
  expect(await select('select name from sqlite_schema')).toEqual([])
})

test('standard input is imported, and leaves no temporary file', async () => {
  const { baton, temporaryDirectory } = await openDatabase()
  expect((await baton(['import', '-', '--table', 't'], 'a\n1\n')).output).toBe(
    'imported 1 row into t (a INTEGER)\n',
  )
  expect((await baton(['import', '-'], 'a\n1\n')).errors).toContain('pass the table with --table')
  expect(await readdir(temporaryDirectory)).toEqual([])
})

test('dot commands work as an argument, in standard input and in files', async () => {
  const { baton, select } = await openDatabase()
  await baton(['sql', 'create table person (id integer, name text); create view someone as select 1 as one'])
  expect((await baton(['sql', '.tables'])).output).toBe('person\nsomeone\n')
  expect((await baton(['sql'], '.tables\n')).output).toBe('person\nsomeone\n')
  expect((await baton(['sql', '.schema PERSON'])).output).toMatch(
    /^CREATE TABLE person \(id integer, name text\);\n$/i,
  )
  expect(await baton(['sql', '.schema nope'])).toMatchObject({
    code: 1,
    errors: 'baton: line 1: there is no table or view nope\n',
  })
  const file = await writeCsv(
    'script.sql',
    "insert into person values (1, 'a|b');\n.mode markdown\nselect * from person;\n.mode csv\n.headers off\nselect name, null, '' from person;\n.mode line\nselect 2 as two;\n",
  )
  expect((await baton(['sql', `.read ${file}`])).output).toBe(
    '| id | name |\n| --- | --- |\n| 1 | a\\|b |\na|b,,""\ntwo = 2\n',
  )
  const csv = await writeCsv('more.csv', 'id,name\n2,x\n')
  expect((await baton(['sql', `.import "${csv}" person`])).output).toContain('imported 1 row into person')
  expect(await select('select count(*) from person')).toEqual([[2n]])
  expect((await baton(['sql'], 'begin;\n.import x.csv person\n')).errors).toContain(
    'line 2: .import has its own transactions',
  )
  expect((await baton(['sql'], '.timer on\nselect 1 as one;\n')).output).toMatch(/1\n\d+\.\d{3} s\n$/)
  expect((await baton(['sql'], '.quit\nselect 1;\n')).output).toBe('')
  expect(await baton(['sql'], 'select 1;\n.nope\nselect 2;\n')).toMatchObject({
    code: 1,
    errors: 'baton: line 2: unknown command .nope; .help lists the commands\n',
  })
  expect((await baton(['sql', '.mode wide'])).errors).toContain(
    'the modes are table, line, csv, json, markdown',
  )
  expect((await baton(['sql', '.read /nowhere.sql'])).errors).toContain('does not exist')
  expect((await baton(['sql', '--json', '--csv', 'select 1'])).code).toBe(2)
})

test('--csv prints the header of an empty result, equal names and every type', async () => {
  const { baton } = await openDatabase()
  const csv = async (sql: string) => (await baton(['sql', '--csv', sql])).output
  expect(await csv("select 1 as a, 2.0 as a, null as b, '' as c, x'00ff' as d, '7' as e, 'x' as f")).toBe(
    'a,a,b,c,d,e,f\n1,2.0,,"",x\'00ff\',"7",x\n',
  )
  expect(await csv('select 1 as "a,b" where false')).toBe('"a,b"\n')
  expect(await csv('create table t (a); pragma user_version')).toBe('user_version\n0\n')
})
