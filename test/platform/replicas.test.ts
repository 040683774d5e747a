import { EventEmitter, once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, type ClientEvent, createClient } from '@batonsql/core'
import { type LocalServerOptions, startLocalServer } from '@batonsql/local-server'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { runAccounting } from '../generated/faults/accounting.ts'
import { close, pipeline } from '../server/wire.ts'
import { freezeProcess } from '../support/freeze-process.ts'
import { SEED, seeded } from '../support/random.ts'
import { sendHttp } from '../support/send-http.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { waitFor } from '../support/wait-for.ts'
import { groupFolders, Harness, sql } from './platform-harness.ts'

/** Longer than any test: writes reach the replica only when the lag is removed. */
const NEVER_MS = 2 ** 30
/** Maximum number of kills, because each takes several seconds on a slow machine. */
const MAX_KILLS = 12

/** Kills the libsql-server of a replica. */
async function killReplica(directory: string, location: string): Promise<void> {
  await killServer(await replicaFolder(directory, location))
}

async function replicaFolder(directory: string, location: string): Promise<string> {
  return join(await findOnlyGroup(directory), 'replicas', location)
}

async function readPid(folder: string): Promise<number> {
  return JSON.parse(await readFile(join(folder, 'sqld.pid'), 'utf8')).pid
}

async function killServer(folder: string): Promise<void> {
  const pid = await readPid(folder)
  process.kill(pid, 'SIGKILL')
  await waitFor(() => expect(() => process.kill(pid, 0)).toThrow())
}

async function findOnlyGroup(directory: string): Promise<string> {
  const [group] = await groupFolders(directory)
  if (group === undefined) throw new Error('no group has a server')
  return group
}

/** Creates a database with one row and a replica, and clients of both. */
async function populate(harness: Harness) {
  const { host, token } = await harness.openDatabase('app')
  const db = createClientFor(host, token)
  await db.batch(['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])
  await harness.requestOk('POST', 'groups/default/locations/fra')
  const [, instance] = (await harness.requestOk('GET', 'databases/app/instances')).instances
  return {
    host,
    token,
    db,
    replicaHost: instance.hostname as string,
    replica: createClientFor(instance.hostname, token),
  }
}

function createClientFor(host: string, authToken: string, options: object = {}): Client {
  const client = createClient({ url: `http://${host}`, authToken, ...options })
  onTestFinished(() => client.close())
  return client
}

/**
 * Waits until the replica serves the reads of a client: it misses a row that the replica cannot receive. Until the replica has caught
 * up after its start, the primary responds.
 */
async function waitUntilStale(harness: Harness, reader: Client, insertRow: () => Promise<number>) {
  await waitFor(async () => {
    await harness.server.setReplica('fra', { lagMs: NEVER_MS })
    const rowCount = await insertRow()
    const count = Number(await countRows(reader))
    if (count === rowCount) await harness.server.setReplica('fra', { lagMs: 0 })
    expect(count).toBeLessThan(rowCount)
  })
}

const countRows = async (db: Client) => (await db.execute('SELECT count(*) AS n FROM t')).rows[0]?.['n']

test.runIf(inject('target') === 'embedded')(
  'the embedded server reports that it does not support replicas',
  async () => {
    const harness = await Harness.forTest()
    await harness.createDatabase('app')
    for (const [path, body] of [
      ['/groups/default/locations/fra', undefined],
      ['/databases/app/instances', { location: 'fra' }],
    ] as const)
      expect(await harness.sendRequest('POST', harness.orgPath + path, { body })).toEqual({
        status: 501,
        body: {
          error: 'replicas need libsql-server: start the server with --backend sqld',
          code: 'not_supported',
        },
      })
    await expect(harness.server.setReplica('fra', { isDown: true })).rejects.toThrow('the back end "sqld"')
    await expect(startLocalServer({ replicaLagMs: 500 })).rejects.toThrow('the back end "sqld"')
  },
)

describe.runIf(inject('target') === 'sqld')('a replica', () => {
  test('is added with a location of the group, listed, and removed with it', async () => {
    const harness = await Harness.forTest()
    const { host, token, replicaHost } = await populate(harness)
    const { instances } = await harness.requestOk('GET', 'databases/app/instances')
    const uuid = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    expect(instances).toEqual([
      { uuid, name: 'local', type: 'primary', region: 'local', hostname: host },
      { uuid, name: 'fra', type: 'replica', region: 'fra', hostname: replicaHost },
    ])
    expect(instances[0].uuid).not.toBe(instances[1].uuid)
    const path = 'databases/app/instances/fra'
    expect((await harness.requestOk('GET', path)).instance).toEqual(instances[1])
    expect(await harness.statusOf('GET', `${path}/wait`)).toBe(200)
    // the location belongs to the whole group, so it cannot be removed from one database
    expect((await harness.sendRequest('DELETE', path)).body.error).toContain('a location of the group')
    await harness.createDatabase('late')
    const lateDatabase = await harness.requestOk('GET', 'databases/late/instances')
    expect(lateDatabase.instances).toHaveLength(2)

    await harness.requestOk('DELETE', 'groups/default/locations/fra')
    expect((await sql(replicaHost, token, 'SELECT 1')).status).toBe(404)
    expect(await harness.statusOf('GET', path)).toBe(404)
    expect((await sql(host, token, 'SELECT count(*) FROM t')).rows).toEqual([['1']])
  })

  test('of one database is added and removed separately', async () => {
    const harness = await Harness.forTest()
    await harness.createDatabase('app')
    const { host } = await harness.createDatabase('other')
    const token = await harness.tokenFor('app')
    const path = 'databases/app/instances'
    const { instance } = await harness.requestOk('POST', path, { body: { location: 'lhr' } })
    expect(instance).toMatchObject({ name: 'lhr', type: 'replica', region: 'lhr' })
    expect((await sql(instance.hostname, token, 'SELECT 1')).rows).toEqual([['1']])
    const otherHost = host.replace('other', 'lhr_other')
    expect((await sql(otherHost, await harness.tokenFor('other'), 'SELECT 1')).status).toBe(404)
    expect(await harness.statusOf('POST', path, { body: { location: 'lhr' } })).toBe(409)
    expect(await harness.statusOf('POST', path, { body: { location: 'local' } })).toBe(409)
    expect(await harness.statusOf('POST', path, { body: { location: 'atlantis' } })).toBe(400)
    expect(await harness.statusOf('DELETE', `${path}/local`)).toBe(400)
    expect(await harness.statusOf('DELETE', `${path}/nowhere`)).toBe(404)
    expect((await harness.requestOk('DELETE', `${path}/lhr`)).instance).toEqual(instance)
    expect((await sql(instance.hostname, token, 'SELECT 1')).status).toBe(404)
  })

  test('responds to its first read, forwards writes, and supports transactions', async () => {
    const harness = await Harness.forTest()
    const { db, replica, replicaHost, token } = await populate(harness)
    // without an earlier request, with a read-only token
    const readOnly = await harness.tokenFor('app', '?authorization=read-only')
    expect(await countRows(createClientFor(replicaHost, readOnly))).toBe(1)
    await replica.execute('INSERT INTO t VALUES (2)')
    expect(await countRows(db)).toBe(2)
    expect(await countRows(replica)).toBe(2)
    await replica.transaction(async (tx) => {
      await tx.execute('INSERT INTO t VALUES (3)')
      expect((await tx.execute('SELECT count(*) AS n FROM t')).rows).toEqual([{ n: 3 }])
    })
    expect(await countRows(db)).toBe(3)
    await expect(replica.execute('INSERT INTO nowhere VALUES (1)')).rejects.toThrow('no such table: nowhere')
    // routes that only the primary has
    const headers = { authorization: `Bearer ${token}` }
    expect(await (await fetch(`http://${replicaHost}/dump`, { headers })).text()).toContain(
      'INSERT INTO t VALUES(3)',
    )
  })

  test('lags as configured: reads are stale unless they wait for an index', async () => {
    const harness = await Harness.forTest()
    const { db, replica, replicaHost, token } = await populate(harness)
    const withoutIndex = createClientFor(replicaHost, token, { readYourWrites: false })
    let rowCount = 1
    await waitUntilStale(harness, withoutIndex, async () => {
      await replica.execute('INSERT INTO t VALUES (2)')
      rowCount += 1
      return rowCount
    })
    expect(await countRows(db)).toBe(rowCount)
    const index = replica.replicationIndex as string
    const stmt = { sql: 'SELECT count(*) FROM t', replication_index: index }
    const pending = pipeline(`http://${replicaHost}`, [{ type: 'execute', stmt }, close], { token })
    await harness.server.setReplica('fra', { lagMs: 0 })
    expect((await pending).text).toContain(`"value":"${rowCount}"`)
    expect(await countRows(withoutIndex)).toBe(rowCount)
    await expect(harness.server.setReplica('fra', { lagMs: -1 })).rejects.toThrow('whole number')
  })

  test.each(['full-access', 'read-only'])('that is slow makes reads wait (%s)', async (access) => {
    const harness = await Harness.forTest()
    const { db, replica, replicaHost } = await populate(harness)
    await waitFor(async () => expect(await countRows(replica)).toBe(1))
    await harness.server.setReplica('fra', { lagMs: NEVER_MS })
    await db.execute('INSERT INTO t VALUES (2)')
    const index = db.replicationIndex as string
    const requests = new EventEmitter()
    const reader = createClientFor(replicaHost, await harness.tokenFor('app', `?authorization=${access}`), {
      minReplicationIndex: index,
      requestTimeoutMs: 120_000,
      observe: ({ type }: ClientEvent) => void requests.emit(type),
    })
    const count = countRows(reader)
    // the client has asked twice whether the primary has this index
    await once(requests, 'request')
    await once(requests, 'request')
    expect(reader.replicationIndex).toBe(index)
    await harness.server.setReplica('fra', { lagMs: 0 })
    expect(await count).toBe(2)
    expect(reader.replicationIndex).toBe(index)
  })

  test('a location can be added, used and removed at the same time', async () => {
    const directory = createTemporaryDirectory()
    {
      await using harness = await Harness.start({}, directory)
      const { token, replicaHost } = await populate(harness)
      const location = 'groups/default/locations/fra'
      const changed = new AbortController()
      const responses = new Set<string>()
      const reader = async (): Promise<void> => {
        while (!changed.signal.aborted) {
          const { status } = await sql(replicaHost, token, 'SELECT a FROM t')
          responses.add(String(status))
        }
      }
      const readers = [reader(), reader()]
      const random = seeded(SEED)
      const changes = Array.from({ length: 12 }, () => (random() < 0.5 ? 'POST' : 'DELETE'))
      const outcomes = await Promise.all(changes.map((method) => harness.sendRequest(method, location)))
      changed.abort()
      await Promise.all(readers)
      // it is not an error to add a location twice; one that does not exist cannot be removed
      for (const { status, body } of outcomes)
        expect([200, body]).toEqual([status === 400 ? 200 : status, body])
      // a replica that was removed meanwhile
      for (const status of responses) expect(['200', '404', '502']).toContain(status)
      await harness.requestOk('POST', location)
      expect((await sql(replicaHost, token, 'SELECT a FROM t')).rows).toEqual([['1']])
    }
  })

  test.each<{ change: string; apply: (harness: Harness, path: string) => Promise<unknown> }>([
    { change: 'deleted', apply: (harness, path) => harness.requestOk('DELETE', path) },
    {
      change: 'transferred',
      apply: async (harness, path) => {
        const body = { name: 'other', location: 'local', org: 'local', group: 'other' }
        await harness.requestOk('POST', 'groups', { body })
        await harness.requestOk('POST', `${path}/transfer`, { body })
      },
    },
  ])('the replica of a $change database stops', async ({ apply }) => {
    const directory = createTemporaryDirectory()
    await using harness = await Harness.start({}, directory)
    await harness.openDatabase('app', 'CREATE TABLE t (a)')
    const path = 'databases/app'
    const { instance } = await harness.requestOk('POST', `${path}/instances`, { body: { location: 'fra' } })
    expect(instance.name).toBe('fra')
    const pid = await readPid(await replicaFolder(directory, 'fra'))
    expect(process.kill(pid, 0)).toBe(true)
    await apply(harness, path)
    expect(() => process.kill(pid, 0)).toThrow()
  })

  test('describe and EXPLAIN of DDL change nothing, with the token of a writer too', async () => {
    const harness = await Harness.forTest()
    const { db, replica, replicaHost, token } = await populate(harness)
    await db.batch([
      'CREATE TABLE vec (id INTEGER PRIMARY KEY, e F32_BLOB(2))',
      'CREATE INDEX vec_e ON vec(libsql_vector_idx(e))',
    ])
    const index = db.replicationIndex as string
    const readSchema = async () =>
      JSON.stringify((await replica.execute('SELECT name FROM sqlite_schema ORDER BY 1')).rows)
    await waitFor(async () => expect(await readSchema()).toContain('vec_e'))
    const before = await readSchema()
    const drop = 'drop index vec_e'
    const stmt = { sql: `EXPLAIN ${drop}`, replication_index: index }
    const requests = [
      { type: 'describe', sql: drop, replication_index: index },
      { type: 'describe', sql: `explain ${drop}` },
      { type: 'execute', stmt },
      { type: 'batch', batch: { steps: [{ stmt }] } },
      { type: 'sequence', sql: `select 1; explain query plan ${drop}` },
      { type: 'store_sql', sql_id: 1, sql: drop },
      { type: 'describe', sql_id: 1 },
      { type: 'store_sql', sql_id: 2, sql: `explain ${drop}` },
      { type: 'execute', stmt: { sql_id: 2 } },
      { type: 'describe', sql: 'select 1' },
      close,
    ]
    const { status, results } = await pipeline(`http://${replicaHost}`, requests, { token })
    expect([status, results.at(-2)?.type]).toEqual([200, 'ok'])
    expect(await readSchema()).toBe(before)
    await replica.execute("INSERT INTO vec VALUES (1, vector('[1,2]'))")
    await db.execute(drop)
    await waitFor(async () => expect(await readSchema()).not.toContain('vec_e'))
  })

  test('enforces guards, tokens and blocks', async () => {
    const harness = await Harness.forTest()
    const { replicaHost, token, replica } = await populate(harness)
    const readOnly = await harness.tokenFor('app', '?authorization=read-only')
    expect((await sql(replicaHost, 'nonsense', 'SELECT 1')).status).toBe(401)
    const { host: foreignHost } = await harness.createDatabase('foreign')
    const foreignToken = await harness.tokenFor('foreign')
    expect((await sql(replicaHost, foreignToken, 'SELECT 1')).status).toBe(401)
    expect((await sql(replicaHost, readOnly, 'INSERT INTO t VALUES (2)')).error).not.toBeNull()
    expect((await sql(replicaHost, token, "SELECT writefile('/tmp/x', 'x')")).error).not.toBeNull()
    // a stream of the replica does not belong to any other instance or database
    const { baton } = await sql(replicaHost, token, 'SELECT 1', { keepOpen: true })
    const otherHost = foreignHost.replace('foreign', 'fra_foreign')
    expect((await sql(otherHost, foreignToken, 'SELECT 1', { baton })).status).toBe(400)
    expect((await sql(replicaHost, token, 'SELECT 2', { baton, keepOpen: true })).rows).toEqual([['2']])

    const configuration = 'databases/app/configuration'
    await harness.requestOk('PATCH', configuration, { body: { block_writes: true } })
    await expect(replica.execute('INSERT INTO t VALUES (2)')).rejects.toMatchObject({ code: 'BLOCKED' })
    await harness.requestOk('PATCH', configuration, { body: { block_writes: false, block_reads: true } })
    expect((await sql(replicaHost, token, 'SELECT 1')).error).toBe('BLOCKED')
    expect((await sql(replicaHost, token, 'SELECT 1', { baton })).status).toBe(400)
    await harness.requestOk('PATCH', configuration, { body: { block_reads: false } })
    // at once, although the replica may still have the block
    expect((await sql(replicaHost, token, 'SELECT count(*) FROM t')).rows).toEqual([['1']])
    await harness.requestOk('POST', 'databases/app/auth/rotate')
    expect((await sql(replicaHost, token, 'SELECT 1')).status).toBe(401)
  })

  test('whose settings are late leaves reads that are allowed again to the primary', async () => {
    const harness = await Harness.forTest()
    const { db, replicaHost, token } = await populate(harness)
    const reader = createClientFor(replicaHost, token, { readYourWrites: false })
    let rowCount = 1
    const insertRow = async () => {
      await db.execute('INSERT INTO t VALUES (2)')
      rowCount += 1
      return rowCount
    }
    await waitUntilStale(harness, reader, insertRow)
    // the replica receives neither change
    for (const isBlocked of [true, false])
      await harness.requestOk('PATCH', 'databases/app/configuration', { body: { block_reads: isBlocked } })
    expect(await countRows(reader)).toBe(rowCount)
    await insertRow()
    expect(await countRows(reader)).toBe(rowCount)

    await harness.server.setReplica('fra', { lagMs: 0 })
    await waitUntilStale(harness, reader, insertRow)
  })

  test('is unhealthy while it does not respond, and from when it is stopped until it is started again', async () => {
    const directory = createTemporaryDirectory()
    await using harness = await Harness.start({}, directory)
    const { db, replica, replicaHost, token } = await populate(harness)
    expect(await countRows(replica)).toBe(1)
    const getHealth = async () => (await fetch(`http://${replicaHost}/health`)).status
    expect(await getHealth()).toBe(200)
    const pid = await readPid(await replicaFolder(directory, 'fra'))
    await freezeProcess(pid)
    expect(await getHealth()).toBe(503)
    process.kill(pid, 'SIGCONT')
    await harness.server.setReplica('fra', { isDown: true })
    expect(await sql(replicaHost, token, 'SELECT 1')).toMatchObject({
      status: 503,
      error: expect.stringContaining('the replica in fra is down'),
    })
    expect(await getHealth()).toBe(503)
    await db.execute('INSERT INTO t VALUES (2)')
    await harness.server.setReplica('fra', { isDown: false })
    expect(await getHealth()).toBe(200)
    await waitFor(async () => expect(await countRows(replica)).toBe(2))
  })

  test('loses no acknowledged write when it and its primary are killed', async () => {
    const directory = createTemporaryDirectory()
    await using harness = await Harness.start({}, directory)
    const { db, replica, replicaHost, token } = await populate(harness)
    await replica.execute('INSERT INTO t VALUES (2)')
    await killReplica(directory, 'fra')
    expect((await fetch(`http://${replicaHost}/health`)).status).toBe(503)
    expect(await countRows(replica)).toBe(2)
    expect((await fetch(`http://${replicaHost}/health`)).status).toBe(200)
    const transaction = await sql(replicaHost, token, ['BEGIN IMMEDIATE', 'INSERT INTO t VALUES (9)'], {
      keepOpen: true,
    })
    expect(transaction.error).toBe(null)
    await killServer(await findOnlyGroup(directory))
    // the replica responds without waiting for the primary
    expect((await sql(replicaHost, token, 'COMMIT', { baton: transaction.baton })).error).not.toBe(null)
    expect(await countRows(replica)).toBe(2)
    await replica.execute('INSERT INTO t VALUES (3)')
    expect(await countRows(db)).toBe(3)
  })

  test(`accounts for every write while it and its primary are killed (TEST_SEED=${SEED})`, async () => {
    const directory = createTemporaryDirectory()
    await using harness = await Harness.start({}, directory)
    const { db, replicaHost, token } = await populate(harness)
    const group = await findOnlyGroup(directory)
    const writes = new EventEmitter()
    const observe = ({ type }: ClientEvent): void => void writes.emit(type)
    const writer = createClientFor(replicaHost, token, { requestTimeoutMs: 5_000, concurrency: 8, observe })
    const writing = new AbortController()
    let kills = 0
    const killer = (async () => {
      for (let attempt = 0; attempt < MAX_KILLS && !writing.signal.aborted; attempt += 1) {
        const pauseBetweenKillsMs = 100
        await sleep(pauseBetweenKillsMs)
        // every second kill affects servers that have restarted, however slow the machine is
        if (attempt % 2 === 0) await once(writes, 'query:end', { signal: writing.signal }).catch(() => {})
        const victim = attempt % 2 === 0 ? group : join(group, 'replicas', 'fra')
        // a server that got no request since the last kill is not running
        await killServer(victim).then(
          () => (kills += 1),
          () => {},
        )
      }
    })()
    const report = await runAccounting(writer, db, 200, 8, seeded(SEED), {
      beforeCounting: async () => {
        writing.abort()
        await killer
      },
    })
    console.log(
      `${kills} kills: ${JSON.stringify({ ...report, violations: report.violations.length, seed: SEED })}`,
    )
    expect(report.violations).toEqual([])
    expect(kills).toBeGreaterThan(0)
    expect(report.acknowledged).toBeGreaterThan(0)
  })

  test('is restored after a restart of the server, which removes the data of deleted replicas', async () => {
    const directory = createTemporaryDirectory()
    let host = ''
    {
      await using harness = await Harness.start({}, directory)
      const { replica, replicaHost } = await populate(harness)
      expect(await countRows(replica)).toBe(1)
      host = new URL(`http://${replicaHost}`).pathname
    }
    await using harness = await Harness.start({}, directory)
    const token = await harness.tokenFor('app')
    const replica = createClientFor(`127.0.0.1:${harness.server.port}${host}`, token)
    expect(await countRows(replica)).toBe(1)
    const group = await findOnlyGroup(directory)
    const id = harness.server.databaseId('app')
    const replicaFolder = join(group, 'replicas', 'fra', 'sqld', 'dbs')
    expect(await readdir(replicaFolder)).toContain(id)
    await harness.requestOk('DELETE', 'databases/app')
    expect(await readdir(replicaFolder)).not.toContain(id)
    await harness.requestOk('DELETE', 'groups/default/locations/fra')
    expect(await readdir(join(group, 'replicas'))).toEqual([])
  })
})

test.runIf(inject('target') === 'sqld')('a replica has its own host name', async () => {
  await using server = await startLocalServer({
    backend: 'sqld',
    replicas: ['fra'],
    platform: { domain: 'db.example' },
  })
  const authorization = `Bearer ${await server.createToken('default')}`
  const statusAt = async (host: string): Promise<number> =>
    (await sendHttp(`${server.url}/dump`, { headers: { host, authorization } })).status
  expect(await statusAt('fra_default-local.db.example')).toBe(200)
  expect(await statusAt('fra_default.localhost')).toBe(200)
  expect(await statusAt('lhr_default-local.db.example')).toBe(404)
})

test.runIf(inject('target') === 'sqld')(
  'without the platform API, the default group can have replicas, and the log shows which of them are down',
  async () => {
    const lines: string[] = []
    vi.spyOn(console, 'error').mockImplementation((line: string) => void lines.push(line))
    await using server = await startLocalServer({ backend: 'sqld', replicas: ['fra', 'lhr'], log: 'errors' })
    expect(server.replicaUrls('default')).toEqual({
      fra: `${server.url}/fra_default/`,
      lhr: `${server.url}/lhr_default/`,
    })
    const { fra = '', lhr = '' } = server.replicaUrls('default')
    const clients = [server.url, fra, lhr].map((url) => createClient({ url }))
    onTestFinished(async () => void (await Promise.all(clients.map((client) => client.close()))))
    const [primary, first, second] = clients as [Client, Client, Client]
    await primary.execute('CREATE TABLE t (a)')
    await first.execute('INSERT INTO t VALUES (1)')
    // an index is valid at every replica
    const client = createClient({ url: lhr, minReplicationIndex: first.replicationIndex as string })
    onTestFinished(() => client.close())
    expect(await countRows(client)).toBe(1)
    await server.setReplica('lhr', { isDown: true })
    await expect(second.execute('SELECT 1')).rejects.toMatchObject({ status: 503 })
    expect((await fetch(`${lhr}health`)).status).toBe(503)
    expect((await fetch(`${fra}health`)).status).toBe(200)
    expect(lines.map((line) => JSON.parse(line))).toContainEqual(
      expect.objectContaining({ event: 'database', text: 'the replica in lhr is down' }),
    )
  },
)

test.runIf(inject('target') === 'sqld').each<[LocalServerOptions, string]>([
  [{ replicaLagMs: -1 }, 'whole number'],
  [{ replicaLagMs: { fra: 0.5 } }, 'whole number'],
  [{ replicaLagMs: 2 ** 31 }, 'whole number'],
  [{ replicas: ['atlantis'] }, 'unknown location atlantis'],
])('a server with %j is not started', async (options, reason) => {
  await expect(startLocalServer({ backend: 'sqld', ...options })).rejects.toThrow(reason)
})
