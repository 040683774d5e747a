import { spawn } from 'node:child_process'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startLocalServer } from '@batonsql/local-server'
import { expect, onTestFinished, test } from 'vitest'
import { DatabaseFiles, MAIN_FILE } from '../../packages/local-server/src/embedded/engine/database-files.ts'
import { EngineInstance } from '../../packages/local-server/src/embedded/engine/engine-instance.ts'
import { SqliteConnection } from '../../packages/local-server/src/embedded/engine/sqlite-connection.ts'
import { engineModule } from '../../packages/local-server/src/embedded/engine-module.ts'
import { SharedCallState } from '../../packages/local-server/src/embedded/protocol/shared-call-state.ts'
import { pick, seeded } from '../support/random.ts'
import { close, codes, execute, pipeline, query } from './wire.ts'

const PROGRAM = fileURLToPath(new URL('programs/sqlite-session.ts', import.meta.url))
const IN_USE = 'the database file is open in another program'

async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}

/** An SQLite of another process, which answers each line by one. */
function otherProgram(path: string): { run(line: string): Promise<string>; kill(): Promise<void> } {
  const flags = ['--disable-warning=ExperimentalWarning', PROGRAM, path]
  const child = spawn(process.execPath, flags, { stdio: ['pipe', 'pipe', 'inherit'] })
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL')
    await gone
  }
  onTestFinished(kill)
  return {
    async run(line) {
      child.stdin.write(`${line}\n`)
      return String((await lines.next()).value)
    },
    kill,
  }
}

async function headOf(path: string): Promise<string> {
  const file = await open(path)
  const { buffer } = await file.read(Buffer.alloc(15), 0, 15, 0)
  await file.close()
  return buffer.toString('latin1')
}

/** A server whose database is a plain file again, because nobody has asked for it for a while. */
async function handedOut() {
  const dataDirectory = await temporaryDirectory()
  const server = await startLocalServer({ backend: 'embedded', auth: false, dataDirectory })
  const { url } = await server.createDatabase('app')
  await query(url, 'create table t(a)')
  await query(url, "insert into t values ('first')")
  const path = join(dataDirectory, 'databases', server.databaseId('app'), 'data.db')
  while ((await headOf(path)) !== 'SQLite format 3') await sleep(100)
  return { server, url, path, program: otherProgram(path) }
}

test('another program with an open session is not written past: the server refuses until it has closed', async () => {
  const { server, url, path, program } = await handedOut()
  await using _ = server
  expect(await program.run('open')).toBe('ok')
  expect(await program.run("update t set a = 'edited'")).toBe('ok')
  for (let round = 0; round < 20; round += 1) {
    const { status, text } = await pipeline(url, [execute('insert into t values (1)'), close])
    expect([status, text]).toEqual([500, expect.stringContaining(IN_USE)])
  }
  expect(await program.run("insert into t values ('added')")).toBe('ok')
  expect(await program.run('close')).toBe('ok')
  expect(await query(url, 'select a from t')).toEqual([['edited'], ['added']])
  await query(url, "insert into t values ('after')")
  // and now the other way round
  expect(await program.run('open')).toBe('ok')
  expect(await program.run("insert into t values ('too late')")).toBe('file is not a database')
  await program.run('close')
  await server.close()
  const file = new DatabaseSync(path)
  expect(file.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' })
  expect(file.prepare('select count(*) as count from t').get()).toEqual({ count: 3 })
  file.close()
})

test('what a killed program has left in its log is in the database', async () => {
  const { server, url, program } = await handedOut()
  await using _ = server
  await program.run('open')
  expect(await program.run("insert into t values ('in the log')")).toBe('ok')
  await program.kill()
  expect(await query(url, 'select a from t')).toEqual([['first'], ['in the log']])
  const answer = await pipeline(url, [execute('pragma integrity_check'), close])
  expect(codes(answer)).toEqual(['ok', 'ok'])
})

/** Opens the file as a worker does, writes a row and lets go of it; whether that was possible. */
async function writeRow(path: string, row: string, meanwhile: () => Promise<void>): Promise<boolean> {
  let files: DatabaseFiles
  try {
    files = new DatabaseFiles(path)
  } catch (error) {
    expect((error as Error).message).toContain(IN_USE)
    return false
  }
  const engine = new EngineInstance(await engineModule(), { files, state: new SharedCallState() })
  const connection = new SqliteConnection(engine, { name: 'd', file: MAIN_FILE })
  connection.run('PRAGMA journal_mode = WAL')
  connection.run(`INSERT INTO t VALUES ('${row}')`)
  await meanwhile()
  connection.close()
  files.release()
  return true
}

test.each(['wal', 'delete'])('steps of both in any order lose nothing, journal mode %s', async (mode) => {
  const path = join(await temporaryDirectory(), 'data.db')
  const file = new DatabaseSync(path)
  file.exec(`pragma journal_mode = ${mode}; create table t(a)`)
  file.close()
  const random = seeded(Date.now())
  let program = otherProgram(path)
  const kept: string[] = []
  let open: string[] | null = null
  const counts = { ours: 0, refused: 0 }
  for (let step = 0; step < 250; step += 1) {
    const row = `row ${step}`
    const kind = pick(random, [
      'ours',
      'ours',
      'open',
      'insert',
      'insert',
      'begin',
      'commit',
      'close',
      'kill',
      'mode',
    ])
    if (kind === 'ours') {
      const isDone = await writeRow(path, row, async () => {
        expect(await program.run(`insert into t values ('${row} beside')`)).not.toBe('ok')
      })
      if (isDone) kept.push(row)
      counts[isDone ? 'ours' : 'refused'] += 1
    } else if (kind === 'kill' && random() < 0.3) {
      await program.kill()
      program = otherProgram(path)
      open = null
    } else if (kind === 'insert') {
      if ((await program.run(`insert into t values ('${row}')`)) === 'ok') (open ?? kept).push(row)
    } else if (kind === 'open') {
      await program.run('close')
      open = null
      await program.run('open')
    } else if (kind === 'begin') {
      if ((await program.run('begin immediate')) === 'ok') open = []
    } else if (kind === 'commit') {
      if ((await program.run('commit')) === 'ok') kept.push(...(open ?? []))
      await program.run('rollback')
      open = null
    } else if (kind === 'close') {
      await program.run('close')
      open = null
    } else await program.run(`pragma journal_mode = ${pick(random, ['wal', 'delete'])}`)
  }
  await program.run('close')
  const result = new DatabaseSync(path)
  expect(result.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' })
  const found = new Set(
    result
      .prepare('select a from t')
      .all()
      .map(({ a }) => a),
  )
  result.close()
  expect(kept.filter((row) => !found.has(row))).toEqual([])
  expect(counts.ours).toBeGreaterThan(0)
})
