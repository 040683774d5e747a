import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { newKeyPair } from '@batonsql/server-common/auth'
import {
  type DatabaseId,
  type DatabaseSource,
  DEFAULT_SETTINGS,
  newDatabaseId,
  ReplicaConditions,
} from '@batonsql/server-common/backend'
import { toResponse } from '@batonsql/server-common/http'
import { SqldBackend, SqldGroups } from '@batonsql/sqld-gateway'
import { describe, expect, test } from 'vitest'
import { serviceRequest } from '../../../../test/server/service-request.ts'
import { close, execute, pipeline } from '../../../../test/server/wire.ts'
import { hasSqld } from '../../../../test/support/has-sqld.ts'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { startLocalServer } from './server.ts'

/** Starts a server, and returns functions that send signals to its current libsql-server process. */
async function startKillable() {
  const dataDirectory = createTemporaryDirectory()
  const server = await startLocalServer({ backend: 'sqld', dataDirectory })
  const run = (sql: string) => pipeline(server.url, [execute(sql), close])
  await run('CREATE TABLE t(a)')
  const [group = ''] = await readdir(join(dataDirectory, 'sqld'))
  const file = join(dataDirectory, 'sqld', group, 'sqld.pid')
  // the file exists as soon as the process runs again
  const signal = (name: NodeJS.Signals) =>
    expect
      .poll(async () => {
        const { pid } = JSON.parse(await readFile(file, 'utf8')) as { pid: number }
        return process.kill(pid, name)
      })
      .toBe(true)
  return { server, run, signal, kill: () => signal('SIGKILL') }
}

test.skipIf(!hasSqld)(
  'restarts a server that has exited; its data is kept, and the next request waits for it',
  async () => {
    const { server, run, kill } = await startKillable()
    await using _ = server
    for (let round = 1; round <= 5; round += 1) {
      await kill()
      const responses = await Promise.all([run('INSERT INTO t VALUES (1)'), run('SELECT * FROM t')])
      // a kill takes a moment, during which a request may still reach the process
      for (const { status, text } of responses)
        if (status !== 200)
          expect([status, text]).toEqual([502, expect.stringContaining('while running this request')])
      await expect.poll(async () => (await run('SELECT count(*) FROM t')).status).toBe(200)
    }
  },
)

test.skipIf(!hasSqld)(
  'a write interrupted by the exit of the server is rejected with status 502; acknowledged writes are kept',
  async () => {
    const { server, run, kill } = await startKillable()
    await using _ = server
    const statuses: number[] = []
    const finished = new AbortController()
    const writes = Array.from({ length: 4 }, async () => {
      while (!finished.signal.aborted) statuses.push((await run('INSERT INTO t VALUES (1)')).status)
    })
    for (let round = 1; round <= 5; round += 1) {
      await new Promise((resolve) => setTimeout(resolve, 60))
      await kill()
    }
    finished.abort()
    await Promise.all(writes)
    const acknowledged = statuses.filter((status) => status === 200).length
    expect(new Set(statuses.filter((status) => status !== 200)).difference(new Set([502])).size).toBe(0)
    // the server may be starting
    let countResponse = await run('SELECT count(*) FROM t')
    while (countResponse.status !== 200) countResponse = await run('SELECT count(*) FROM t')
    const [, count] = /"value":"(\d+)"/.exec(countResponse.text) ?? []
    expect(Number(count)).toBeGreaterThanOrEqual(acknowledged)
    expect(Number(count)).toBeLessThanOrEqual(statuses.length)
  },
)

test.skipIf(!hasSqld)('a database on an unresponsive server is not healthy', async () => {
  const { server, signal } = await startKillable()
  await using _ = server
  const health = async (path: string): Promise<number> => (await fetch(`${server.url}${path}`)).status
  expect([await health('/health'), await health('/default/health')]).toEqual([200, 200])
  await signal('SIGSTOP')
  // a signal takes a moment, during which the process may still respond
  const readHealth = () => Promise.all([health('/health'), health('/default/health')])
  await expect.poll(readHealth, { timeout: 60_000 }).toEqual([503, 503])
  await signal('SIGCONT')
  await expect.poll(() => health('/health'), { timeout: 60_000 }).toBe(200)
  // the health check starts it again
  await signal('SIGKILL')
  await expect.poll(() => health('/health')).toBe(200)
})

describe.skipIf(!hasSqld)(
  'requests that the server rejects during a migration of a shared schema wait until it ends',
  () => {
    test.each([
      ['another connection writes to its own database', 300, 'BEGIN IMMEDIATE', 'COMMIT'],
      // the server can undo what it has begun to create, which fails in the first case
      ['another connection writes to its own database for a moment', 150, 'BEGIN IMMEDIATE', 'COMMIT'],
      [
        'the schema is being migrated',
        300,
        'INSERT INTO jobs (schema, migration, status) SELECT schema, migration, 1 FROM jobs LIMIT 1',
        'DELETE FROM jobs WHERE NOT finished',
      ],
    ])('%s', async (_, heldMs, begin, end) => {
      const directory = createTemporaryDirectory()
      const [controlKey, sqldPath, remote] = [newKeyPair(), undefined, undefined]
      await using backend = new SqldBackend({
        directory,
        isOpen: true,
        controlKey,
        sqldPath,
        remote,
        onNotice: () => {},
        conditions: new ReplicaConditions(),
      })
      await backend.start()
      const run = async (id: DatabaseId, sql: string): Promise<string> => {
        const request = serviceRequest({ requests: [execute(sql), close] })
        return await toResponse(await backend.handle(id, request)).text()
      }
      const [schema, plain] = [newDatabaseId(), newDatabaseId()]
      await backend.create(schema, { type: 'schema' }, DEFAULT_SETTINGS)
      await backend.create(plain, { type: 'empty' }, DEFAULT_SETTINGS)
      for (const id of [schema, plain]) await run(id, 'CREATE TABLE t(a)')
      const [changedChild, removedChild, sources] = [
        newDatabaseId(),
        newDatabaseId(),
        new Map<DatabaseId, DatabaseSource>(),
      ]
      for (const id of [changedChild, removedChild])
        await backend.create(id, { type: 'schema-child', parent: schema }, DEFAULT_SETTINGS)
      const file = join(directory, 'source.db')
      await backend.exportTo(schema, file)
      sources.set(newDatabaseId(), { type: 'schema-child', parent: schema })
      sources.set(newDatabaseId(), { type: 'fork', from: plain })
      sources.set(newDatabaseId(), { type: 'file', file })
      const metastore = new DatabaseSync(join(directory, 'sqld/metastore/data'))
      metastore.exec('PRAGMA busy_timeout = 60000')
      metastore.exec(begin)
      const changes = Promise.all([
        ...[...sources].map(([id, source]) => backend.create(id, source, DEFAULT_SETTINGS)),
        backend.applySettings(changedChild, { ...DEFAULT_SETTINGS, blockWrites: true }),
        backend.remove(removedChild),
      ])
      // the server rejects them within a tenth of a second
      await sleep(heldMs)
      metastore.exec(end)
      metastore.close()
      await changes
      for (const id of sources.keys())
        expect(await run(id, 'SELECT count(*) FROM t'), sources.get(id)?.type).toContain('"value":"0"')
      expect(await run(changedChild, 'INSERT INTO t VALUES (1)')).toContain('BLOCKED')
      expect(await readdir(join(directory, 'sqld/dbs'))).not.toContain(removedChild)
      // the new children belong to the schema
      await run(schema, 'CREATE TABLE later(a)')
      const [child] = sources.keys()
      expect(await run(child as DatabaseId, 'SELECT count(*) FROM later')).toContain('"value":"0"')
    })
  },
)

/** Creates the servers of the groups, of which there is one, or none. */
const createGroups = (directory: string, group?: DatabaseId): SqldGroups =>
  new SqldGroups({
    directory,
    isOpen: true,
    controlKey: newKeyPair(),
    sqldPath: undefined,
    findGroup: () => group,
    hasGroup: () => group !== undefined,
    getReplicaLocations: () => [],
    conditions: new ReplicaConditions(),
    onNotice: () => {},
  })

test('a removed database has no streams to close and no usage, and requests for it get 404', async () => {
  const groups = createGroups('/nonexistent')
  const id = newDatabaseId()
  await groups.revokeAccess(id, 'all')
  expect(await groups.topQueries(id)).toEqual([])
  await expect(groups.sampleUsage(id)).rejects.toThrow('has not been used')
  const request = serviceRequest('', { method: 'GET', path: '/dump' })
  expect(await groups.handle(id, request)).toMatchObject({ status: 404 })
})

test.skipIf(!hasSqld)(
  'a missing database is noticed while the server of its group starts, but not an unused one',
  async () => {
    const [unused, missing, group] = [newDatabaseId(), newDatabaseId(), newDatabaseId()]
    await using groups = createGroups(createTemporaryDirectory(), group)
    // the server starts for the creation, and then applies the settings
    const [, exists] = await Promise.all([
      groups.create(unused, { type: 'empty' }, DEFAULT_SETTINGS),
      groups.applySettings(missing, DEFAULT_SETTINGS),
    ])
    expect(exists).toBe(false)
    expect(await groups.applySettings(missing, DEFAULT_SETTINGS)).toBe(false)
    expect(await groups.applySettings(unused, DEFAULT_SETTINGS)).toBe(true)
  },
)
