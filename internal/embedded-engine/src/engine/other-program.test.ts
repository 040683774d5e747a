import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { startOtherProgram } from '../../../../test/support/other-program.ts'
import { pick, seeded } from '../../../../test/support/random.ts'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { loadEngineModule } from '../engine-module.ts'
import { SharedCallState } from '../protocol/shared-call-state.ts'
import { DatabaseFiles, MAIN_FILE } from './database-files.ts'
import { EngineInstance } from './engine-instance.ts'
import { ErasableInstance } from './erasable-instance.ts'
import { SqliteConnection } from './sqlite-connection.ts'

const IN_USE = 'the database file is open in another program'

/** Opens the file as a worker does, writes a row and closes it. @returns false if another program has the file open */
async function writeRow(path: string, row: string, whileOpen: () => Promise<void>): Promise<boolean> {
  let files: DatabaseFiles
  try {
    files = new DatabaseFiles(path)
  } catch (error) {
    expect((error as Error).message).toContain(IN_USE)
    return false
  }
  const engine = new EngineInstance(new ErasableInstance(await loadEngineModule()), {
    files,
    state: new SharedCallState(),
  })
  const connection = new SqliteConnection(engine, { name: 'd', file: MAIN_FILE })
  connection.run('PRAGMA journal_mode = WAL')
  connection.run(`INSERT INTO t VALUES ('${row}')`)
  await whileOpen()
  connection.close()
  files.release()
  return true
}

test.each(['wal', 'delete'])(
  'no data is lost, regardless of how the steps of the two programs are interleaved, in journal mode %s',
  async (mode) => {
    const path = join(createTemporaryDirectory(), 'data.db')
    const file = new DatabaseSync(path)
    file.exec(`pragma journal_mode = ${mode}; create table t(a)`)
    file.close()
    const random = seeded(Date.now())
    let program = startOtherProgram(path)
    const committed: string[] = []
    let uncommittedRows: string[] | null = null
    const counts = { ours: 0, rejected: 0 }
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
          expect(await program.run(`insert into t values ('${row} concurrent')`)).not.toBe('ok')
        })
        if (isDone) committed.push(row)
        counts[isDone ? 'ours' : 'rejected'] += 1
      } else if (kind === 'kill' && random() < 0.3) {
        await program.kill()
        program = startOtherProgram(path)
        uncommittedRows = null
      } else if (kind === 'insert') {
        if ((await program.run(`insert into t values ('${row}')`)) === 'ok')
          (uncommittedRows ?? committed).push(row)
      } else if (kind === 'open') {
        await program.run('close')
        uncommittedRows = null
        await program.run('open')
      } else if (kind === 'begin') {
        if ((await program.run('begin immediate')) === 'ok') uncommittedRows = []
      } else if (kind === 'commit') {
        if ((await program.run('commit')) === 'ok') committed.push(...(uncommittedRows ?? []))
        await program.run('rollback')
        uncommittedRows = null
      } else if (kind === 'close') {
        await program.run('close')
        uncommittedRows = null
      } else await program.run(`pragma journal_mode = ${pick(random, ['wal', 'delete'])}`)
    }
    await program.run('close')
    const result = new DatabaseSync(path)
    expect(result.prepare('pragma integrity_check').get()).toEqual({ integrity_check: 'ok' })
    const rows = new Set(
      result
        .prepare('select a from t')
        .all()
        .map(({ a }) => a),
    )
    result.close()
    expect(committed.filter((row) => !rows.has(row))).toEqual([])
    expect(counts.ours).toBeGreaterThan(0)
  },
)

test.each(['wal', 'delete'])('an empty WAL beside a database in journal mode %s is ignored', async (mode) => {
  const path = join(createTemporaryDirectory(), 'data.db')
  const created = new DatabaseSync(path)
  created.exec(`pragma journal_mode = ${mode}; create table t(a)`)
  created.close()
  for (const row of ['first', 'second']) {
    await writeFile(`${path}-wal`, '')
    expect(await writeRow(path, row, async () => {})).toBe(true)
  }
  using file = new DatabaseSync(path)
  expect(file.prepare('select a from t').all()).toEqual([{ a: 'first' }, { a: 'second' }])
})

test('an empty WAL beside a database of a newer format is ignored', async () => {
  const path = join(createTemporaryDirectory(), 'data.db')
  const created = new DatabaseSync(path)
  created.exec('create table t(a)')
  created.close()
  const header = await readFile(path)
  header.fill(3, 18, 20) // write and read version
  await writeFile(path, header)
  await writeFile(`${path}-wal`, '')
  new DatabaseFiles(path).release()
  expect(await readFile(path)).toEqual(header)
})

test.skipIf(process.platform === 'win32')(
  'a database whose WAL cannot be written into its file is not opened without it',
  async () => {
    const path = join(createTemporaryDirectory(), 'data.db')
    const program = startOtherProgram(path)
    await program.run('open')
    await program.run('pragma journal_mode = wal')
    await program.run('create table t(a)')
    await program.run('insert into t values (zeroblob(1000000))')
    await program.kill()
    // with this limit for a file, which is at most 1 KiB times the number, the file cannot grow
    const source = `import { DatabaseFiles } from ${JSON.stringify(new URL('database-files.ts', import.meta.url).href)}
      try { new DatabaseFiles(process.argv[1]) } catch (error) { console.log(error.constructor.name, error.message) }`
    const flags = ['--conditions=@batonsql/source', '--no-warnings', '--input-type=module', '--eval', source]
    const command = ['-c', 'ulimit -f 100; exec "$@"', 'sh', process.execPath, ...flags, path]
    const { stdout } = await promisify(execFile)('sh', command)
    expect(stdout).toBe(
      'FileClaimError the WAL beside the database file cannot be checkpointed (is the disk full?)\n',
    )
    using file = new DatabaseSync(path)
    expect(file.prepare('select length(a) as length from t').get()).toEqual({ length: 1_000_000 })
  },
)
