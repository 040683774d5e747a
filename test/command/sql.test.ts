import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmod,
  constants,
  mkdtemp,
  open,
  readdir,
  readFile,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { startLocalServer } from '@batonsql/local-server'
import { afterAll, expect, test } from 'vitest'
import { batonCommand, batonEnv, killAfterTests, runBaton, startBaton } from '../support/baton-command.ts'
import { ENDLESS_READ } from '../support/fixtures.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { Terminal, terminalProblem } from '../support/terminal.ts'
import { waitFor } from '../support/wait-for.ts'

// The parts of `baton sql` that do not depend on the server.

const folder = createTemporaryDirectory(afterAll)
const server = await startLocalServer()
const { url } = server
afterAll(() => server.close())

test.concurrent('Ctrl-C exits with code 130', async () => {
  const before = server.requestCount('default')
  const child = startBaton(['sql', url, ENDLESS_READ])
  await waitFor(() => expect(server.requestCount('default')).toBeGreaterThan(before))
  child.kill('SIGINT')
  expect(await once(child, 'close')).toEqual([130, null])
})

test.concurrent.each([['sql'], ['restore', '-']])(
  'Ctrl-C ends a command that waits for its input: %s',
  async (command: string, ...operands: string[]) => {
    const child = startBaton([command, url, ...operands])
    // more than the buffers of a pipe, so that it has been read
    await new Promise((resolve) => child.stdin.write('-- comment\n'.repeat(200_000), resolve))
    child.kill('SIGINT')
    expect(await once(child, 'close')).toEqual([130, null])
  },
)

test.concurrent.each<[string, string[]]>([
  ['import', []],
  ['sql', ['--file']],
  ['restore', []],
])('the third Ctrl-C ends %s while it reads from a silent pipe', async (command, options) => {
  const ownFolder = await mkdtemp(join(folder, 'tmp-'))
  const pipe = join(folder, `${command}.csv`)
  execFileSync('mkfifo', [pipe])
  const child = startBaton([command, url, ...options, pipe], { TMPDIR: ownFolder })
  const closed = once(child, 'close')
  // fails until the command has opened the pipe
  const writer = await waitFor(() => open(pipe, constants.O_WRONLY | constants.O_NONBLOCK))
  const timer = setInterval(() => child.kill('SIGINT'), 50)
  // with the exit code 130 if the first one arrived between two reads
  expect([
    [null, 'SIGINT'],
    [130, null],
  ]).toContainEqual(await closed)
  clearInterval(timer)
  await writer.close()
  expect(await readdir(ownFolder)).toEqual([])
})

test.concurrent('prints more rows than fit in one response, and exits with 0 if its reader stops early', async () => {
  const query = `with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000) select i, '${'x'.repeat(80)}' as x from n`
  const child = startBaton(['sql', url, '--json', query])
  let [length, errors] = [0, '']
  child.stdout.on('data', (part: Buffer) => (length += part.length))
  child.stderr.on('data', (part) => (errors += part))
  const [code] = (await once(child, 'close')) as [number]
  expect([code, errors]).toEqual([0, ''])
  expect(length).toBeGreaterThan(12_000_000)
  const [node, ...args] = batonCommand(['sql', url, '--json', query]).map(
    (word) => `'${word.replaceAll("'", "'\\''")}'`,
  )
  const piped = spawn('bash', ['-c', `${[node, ...args].join(' ')} | head -n 1; echo "\${PIPESTATUS[0]}"`], {
    env: batonEnv(),
  })
  let pipedOutput = ''
  for (const stream of [piped.stdout, piped.stderr]) stream.on('data', (part) => (pipedOutput += part))
  await once(piped, 'close')
  expect(pipedOutput).toBe(`{"i":1,"x":"${'x'.repeat(80)}"}\n0\n`)
})

test.concurrent('the prompt reports when a transaction has expired', async ({ skip }) => {
  if (terminalProblem !== null) skip(terminalProblem)
  const { url: promptUrl } = await server.createDatabase('prompt')
  const terminal = new Terminal(['sql', promptUrl], folder)
  await terminal.waitForText('baton> ')
  await terminal.run('create table t (a); insert into t values (1);')
  await terminal.run('begin;', 'baton*> ')
  await terminal.run('delete from t;', 'baton*> ')
  await terminal.waitForText('A waiting writer can now take over the write lock')
  await terminal.waitForText('The transaction was rolled back')
  expect(await terminal.run('select count(*) as kept from t;')).toMatch(/kept\s+----\s+1\s/)

  terminal.type('exit\n')
  expect(await terminal.waitForExit()).toBe(0)
})

test.concurrent('a dump and a restore show their progress in a terminal', async ({ skip }) => {
  if (terminalProblem !== null) skip(terminalProblem)
  const { url: sourceUrl } = await server.createDatabase('measured')
  const target = await server.createDatabase('again')
  await runBaton(['sql', sourceUrl, 'create table t (a); insert into t values (1), (2)'])
  const file = join(folder, 'measured.sql')
  const dumping = new Terminal(['dump', sourceUrl, '-o', file], folder)
  await dumping.waitForText(' bytes')
  expect(await dumping.waitForExit()).toBe(0)
  // there is no interrupted restore to resume, so a new one begins
  const restoring = new Terminal(['restore', target.url, file, '--resume'], folder)
  await restoring.waitForText(' statements')
  expect(await restoring.waitForExit()).toBe(0)
  expect((await runBaton(['sql', target.url, 'select sum(a) as sum from t', '--json'])).output).toBe(
    '{"sum":3}\n',
  )
})

/** Creates a database whose dump is longer than 1 kB. @returns its URL and its dump */
async function createDumpedDatabase(name: string): Promise<{ sourceUrl: string; dump: string }> {
  const { url: sourceUrl } = await server.createDatabase(name)
  const rows = Array.from({ length: 20 }, () => `('${'x'.repeat(80)}')`).join(', ')
  await runBaton(['sql', sourceUrl, `create table t (a); insert into t values ${rows}`])
  const { output: dump } = await runBaton(['dump', sourceUrl])
  expect(dump.length).toBeGreaterThan(1_024)
  return { sourceUrl, dump }
}

test.concurrent('a dump that does not fit on the disk leaves the previous one unchanged', async () => {
  const { sourceUrl } = await createDumpedDatabase('full')
  const subfolder = await mkdtemp(join(folder, 'full-'))
  const file = join(subfolder, 'app.sql')
  await writeFile(file, 'before')
  const words = batonCommand(['dump', sourceUrl, '-o', file]).map((word) => `'${word}'`)
  // the last part is truncated at 1 kB, and only the next write fails
  const limited = spawn('bash', ['-c', `trap '' XFSZ; ulimit -f 1; exec ${words.join(' ')}`], {
    env: { ...batonEnv(), NODE_COMPILE_CACHE: '' },
  })
  let errors = ''
  limited.stderr.on('data', (part) => (errors += part))
  expect(await once(limited, 'close')).toEqual([1, null])
  expect(errors).toMatch(/^baton: EFBIG/)
  expect(await readFile(file, 'utf8')).toBe('before')
  expect(await readdir(subfolder)).toEqual(['app.sql'])
})

test.concurrent('a dump replaces the target of a link and keeps its permissions, and can be written to a pipe', async () => {
  const { sourceUrl, dump } = await createDumpedDatabase('linked')
  const subfolder = await mkdtemp(join(folder, 'linked-'))
  const [file, link, pipe] = ['app.sql', 'link.sql', 'pipe'].map((name) => join(subfolder, name)) as [
    string,
    string,
    string,
  ]
  await writeFile(file, 'before')
  await chmod(file, 0o600)
  await symlink(file, link)
  expect((await runBaton(['dump', sourceUrl, '-o', link])).code).toBe(0)
  expect(await readFile(file, 'utf8')).toBe(dump)
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  await once(spawn('mkfifo', [pipe]), 'close')
  const reader = spawn('cat', [pipe])
  killAfterTests(reader)
  const pipedDump = text(reader.stdout)
  expect((await runBaton(['dump', sourceUrl, '-o', pipe])).code).toBe(0)
  expect((await stat(pipe)).isFIFO()).toBe(true)
  expect(await pipedDump).toBe(dump)
})
