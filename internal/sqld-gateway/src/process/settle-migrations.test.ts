import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { hasSqld } from '../../../../test/support/has-sqld.ts'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { type SqldProcess, startSqld, startSqldChild } from './process.ts'
import { settleMigrations } from './settle-migrations.ts'

const CONFIG = { allow_attach: false, block_reads: false, block_writes: false }
const CHILDREN = ['one', 'two', 'three']

async function run(server: SqldProcess, namespace: string, sql: string): Promise<string> {
  const body = JSON.stringify({ requests: [{ type: 'execute', stmt: { sql } }, { type: 'close' }] })
  const headers = { 'x-namespace-bin': Buffer.from(namespace).toString('base64').replace(/=+$/, '') }
  return await (await fetch(`${server.url}/v2/pipeline`, { method: 'POST', headers, body })).text()
}

/** Returns the state of the newest migration once it has ended. */
async function migrationOutcome(server: SqldProcess): Promise<string> {
  const headers = { 'x-namespace-bin': Buffer.from('schema').toString('base64') }
  for (let attempt = 0; ; attempt += 1) {
    const response = await fetch(`${server.url}/v1/jobs`, { headers })
    const { migrations } = (await response.json()) as { migrations: { status: string }[] }
    const status = migrations[0]?.status ?? 'none'
    if (/^Run(?:Success|Failure)$/.test(status) || attempt === 200) return status
    await sleep(20)
  }
}

/** Creates a server's directory with two completed migrations, and changes the recorded state of the second. */
async function createDirectory(
  children: readonly string[],
  job: number,
  tasks: readonly number[],
): Promise<string> {
  const dataDirectory = createTemporaryDirectory()
  const server = await startSqldChild({ dataDirectory, namespaces: true })
  await server.admin.create('schema', CONFIG, { shared_schema: true })
  for (const child of children) await server.admin.create(child, CONFIG, { shared_schema_name: 'schema' })
  await server.admin.create('other', CONFIG)
  await run(server, 'schema', 'CREATE TABLE log(a)')
  await run(server, 'schema', 'INSERT INTO log VALUES (1)')
  expect(await migrationOutcome(server)).toBe('RunSuccess')
  await server.kill()
  const database = new DatabaseSync(join(dataDirectory, 'sqld/metastore/data'))
  database.prepare('UPDATE jobs SET status = ? WHERE job_id = 2').run(job)
  const ids = database.prepare('SELECT task_id FROM pending_tasks WHERE job_id = 2').all()
  for (const [index, { task_id: id }] of ids.entries())
    database
      .prepare('UPDATE pending_tasks SET status = ? WHERE task_id = ?')
      .run(tasks[index] ?? 0, id as number)
  database.close()
  return dataDirectory
}

describe.runIf(hasSqld)('a server that was killed during a migration', () => {
  test.each([
    ['done in every database', CHILDREN, 3, [4, 4, 4], 'will be resumed', 'RunSuccess'],
    ['done in some', CHILDREN, 3, [4, 1, 4], 'will be resumed', 'RunSuccess'],
    ['dry run done in every database', CHILDREN, 0, [1, 1, 1], 'will be resumed', 'RunSuccess'],
    ['of a schema without databases', [], 3, [], 'will be resumed', 'RunSuccess'],
    ['failed in the dry run', CHILDREN, 0, [1, 2, 1], 'has failed', 'RunFailure'],
    ['partly undone', CHILDREN, 2, [1, 5, 1], 'has failed', 'RunFailure'],
    ['undone in every database', CHILDREN, 2, [5, 5, 5], 'has failed', 'RunFailure'],
    [
      'failed in one database after it was applied in another',
      CHILDREN,
      3,
      [4, 5, 1],
      'has failed',
      'RunFailure',
    ],
  ])('%s', async (_, children, job, tasks, message, status) => {
    const output = vi.spyOn(console, 'error').mockImplementation(() => {})
    await using server = await startSqld({
      dataDirectory: await createDirectory(children, job, tasks),
      namespaces: true,
    })
    expect(output.mock.calls).toEqual([[expect.stringContaining(message)]])
    expect(await migrationOutcome(server)).toBe(status)
    expect(server.isRunning).toBe(true)
    expect(await run(server, 'other', 'SELECT 1')).toContain('"value":"1"')
    for (const child of ['schema', ...children]) {
      // the migration is not run again, and the next one can run
      expect(await run(server, child, 'SELECT count(*) FROM log')).toContain('"value":"1"')
    }
    expect(await run(server, 'schema', 'CREATE TABLE next(a)')).not.toContain('"error"')
    for (const child of children)
      expect(await run(server, child, 'INSERT INTO next VALUES (1)')).not.toContain('"error"')
  })

  test('marks a migration that makes the server crash again as failed', async () => {
    const dataDirectory = await createDirectory(CHILDREN, 0, [0, 0, 0])
    const consoleError = vi.spyOn(console, 'error').mockImplementation(() => {})
    expect(await settleMigrations(join(dataDirectory, 'sqld'), true)).toBe(false)
    expect(consoleError.mock.calls).toEqual([
      ['migration 2 of the shared schema schema was interrupted and has failed; see /v1/jobs for the reason'],
    ])
    await using server = await startSqld({ dataDirectory, namespaces: true })
    expect(await migrationOutcome(server)).toBe('RunFailure')
    expect(await run(server, 'one', 'INSERT INTO log VALUES (2)')).not.toContain('"error"')
  })
})

test('leaves a directory without migrations, or an empty one, unchanged', async () => {
  const directory = createTemporaryDirectory()
  expect(await settleMigrations(directory, false)).toBe(false)
})
