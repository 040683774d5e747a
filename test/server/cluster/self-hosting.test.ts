import { generateKeyPairSync } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@batonsql/core'
import { type LocalServer, type LocalServerOptions, startLocalServer } from '@batonsql/local-server'
import { createPlatformClient, databaseUrl } from '@batonsql/platform'
import { type SqldChild, startSqldChild } from '@batonsql/sqld-gateway/process'
import { expect, onTestFinished, test, vi } from 'vitest'
import { sql } from '../../platform/platform-harness.ts'
import { ObjectStore } from '../../support/object-store.ts'
import { stablePort } from '../../support/stable-port.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'
import { waitFor } from '../../support/wait-for.ts'

// Tests the recipes of docs/self-hosting.md.

async function startSqldForTest(options: Parameters<typeof startSqldChild>[0]): Promise<SqldChild> {
  const server = await startSqldChild(options)
  onTestFinished(() => server.close())
  return server
}

function startControlPlane(dataDirectory: string, { url, adminAccess }: SqldChild): Promise<LocalServer> {
  return startLocalServer(createOptions(dataDirectory, url, adminAccess))
}

function createOptions(
  dataDirectory: string,
  url: string,
  access: { readonly adminUrl: string; readonly adminKey: string },
): LocalServerOptions {
  return { backend: 'sqld', dataDirectory, platform: {}, sqld: { url, ...access } }
}

function openPlatformClient({ platform }: LocalServer) {
  if (platform === null) throw new Error('no platform')
  const { url, token, organization } = platform
  return createPlatformClient({ url, token, organization })
}

/** Creates a public key whose private key is discarded, so that databases without their own key are inaccessible. */
function createUnusableKey(): string {
  const { publicKey } = generateKeyPairSync('ed25519')
  return publicKey.export({ type: 'spki', format: 'pem' }).toString()
}

test('runs a primary with two replicas behind the control plane', async () => {
  const [grpc, port] = [`127.0.0.1:${await stablePort()}`, await stablePort()]
  const primaryUrl = `http://127.0.0.1:${port}`
  const publicKeyPem = createUnusableKey()
  const primary = await startSqldForTest({
    namespaces: true,
    publicKeyPem,
    port,
    serverArguments: ['--grpc-listen-addr', grpc, '--http-self-url', primaryUrl],
  })
  const replicas: SqldChild[] = []
  for (const _ of [1, 2]) {
    const replicaPort = await stablePort()
    const replicaUrl = `http://127.0.0.1:${replicaPort}`
    const serverArguments = [
      '--primary-grpc-url',
      `http://${grpc}`,
      '--http-primary-url',
      primaryUrl,
      '--http-self-url',
      replicaUrl,
    ]
    replicas.push(
      await startSqldForTest({ namespaces: true, publicKeyPem, port: replicaPort, serverArguments }),
    )
  }
  const directory = createTemporaryDirectory()
  let server = await startControlPlane(directory, primary)
  let platform = openPlatformClient(server)
  const created = await platform.databases.create({ name: 'app', group: 'default' })
  const authToken = String(await platform.databases.createToken('app'))
  const db = createClient({ url: databaseUrl(created.hostname), authToken })
  await db.batch(['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])

  // a replica receives requests at its own URL; the proxy in front of it selects the database
  const headers = { 'x-namespace-bin': Buffer.from(created.dbId).toString('base64').replaceAll('=', '') }
  const readers = replicas.map(({ url }) => createClient({ url, authToken, headers, maxRetries: 9 }))
  for (const reader of readers) {
    // a replica responds to the first read of a database with 500, and the client retries it
    expect((await reader.execute('SELECT a FROM t')).rows).toEqual([{ a: 1 }])
  }
  // libsql-server does not forward tokens, so writes must be sent to the primary
  await expect(readers[0]?.execute('INSERT INTO t VALUES (2)')).rejects.toThrow('Error parsing auth header')
  await expect(
    createClient({ url: replicas[0]?.url ?? '', headers }).execute('SELECT 1'),
  ).rejects.toMatchObject({ status: 401 })

  // the state of the control plane survives the restart, and its changes reach the replicas
  await db.close()
  await server.close()
  server = await startControlPlane(directory, primary)
  platform = openPlatformClient(server)
  expect((await platform.databases.get('app')).dbId).toBe(created.dbId)
  await platform.databases.rotateTokens('app')
  for (const reader of readers) {
    let isRejected = false
    for (let attempt = 0; attempt < 100 && !isRejected; attempt += 1) {
      isRejected = await reader.execute('SELECT 1').then(
        () => false,
        (error: { status?: number }) => error.status === 401,
      )
      if (!isRejected) await sleep(50)
    }
    expect(isRejected).toBe(true)
    await reader.close()
  }
  await platform.databases.delete('app')
  await server.close()
})

test('a database that was moved to another group can no longer be attached', async () => {
  const sqld = await startSqldForTest({ namespaces: true, publicKeyPem: createUnusableKey() })
  await using server = await startControlPlane(createTemporaryDirectory(), sqld)
  const { url = '', token: apiToken = '' } = server.platform ?? {}
  const platform = openPlatformClient(server)
  await platform.groups.create({ name: 'team', location: 'local' })
  const [app, other] = [
    await platform.databases.create({ name: 'app', group: 'default' }),
    await platform.databases.create({ name: 'other', group: 'default' }),
  ]
  await platform.databases.updateConfiguration('other', { allowAttach: true })
  const token = String(await platform.databases.createToken('app', { readAttach: ['other'] }))
  const attach = (name: string) =>
    sql(app.hostname, token, [`ATTACH "${name}" AS x`, 'SELECT count(*) FROM x.sqlite_schema'])
  for (const name of ['other', other.dbId]) expect((await attach(name)).rows).toEqual([['0']])
  const { status } = await fetch(`${url}/v1/organizations/local/databases/other/transfer`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiToken}` },
    body: JSON.stringify({ org: 'local', group: 'team' }),
  })
  expect(status).toBe(200)
  for (const name of ['other', other.dbId]) expect((await attach(name)).status).toBe(403)
})

/** Sets the recipe's environment variables for a bucket on this machine, and returns the recipe's server arguments. */
function createBackupArguments({
  url,
  bucket,
}: ObjectStore): Record<'rowsOnly' | 'withList', readonly string[]> {
  const environment = {
    ENDPOINT: url,
    BUCKET: bucket,
    AWS_ACCESS_KEY_ID: 'key',
    AWS_SECRET_ACCESS_KEY: 'secret',
    AWS_DEFAULT_REGION: 'us-east-1',
    DATABASE_ID: 'one',
    BATCH_INTERVAL_SECS: '1',
  }
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(`LIBSQL_BOTTOMLESS_${name}`, value)
  const list = {
    'bucket-endpoint': url,
    'bucket-name': bucket,
    'access-key-id': 'key',
    'secret-access-key': 'secret',
    region: 'us-east-1',
    'backup-id': 'one-list',
    'backup-interval-s': '1',
  }
  const listArguments = Object.entries(list).flatMap(([name, value]) => [`--meta-store-${name}`, value])
  const rowsOnly = ['--enable-bottomless-replication']
  return { rowsOnly, withList: [...rowsOnly, '--backup-meta-store', ...listArguments] }
}

test('backs up to a bucket, and restores after the disk is lost', async () => {
  await using store = await ObjectStore.start('backup')
  const { rowsOnly, withList } = createBackupArguments(store)
  const [directory, disk, port] = [createTemporaryDirectory(), createTemporaryDirectory(), await stablePort()]
  const publicKeyPem = createUnusableKey()
  const start = (serverArguments: readonly string[]) =>
    startSqldForTest({ namespaces: true, publicKeyPem, port, dataDirectory: disk, serverArguments })

  let sqld = await start(withList)
  let server = await startControlPlane(directory, sqld)
  const created = await openPlatformClient(server).databases.create({ name: 'app', group: 'default' })
  await openPlatformClient(server).databases.create({ name: 'gone', group: 'default' })
  await openPlatformClient(server).databases.delete('gone')
  const authToken = String(await openPlatformClient(server).databases.createToken('app'))
  const selectRows = (): Promise<readonly unknown[]> => read('SELECT a FROM t ORDER BY a')
  const read = async (sql: string, token?: string): Promise<readonly unknown[]> => {
    const { hostname } = await openPlatformClient(server).databases.get('app')
    const client = createClient({ url: databaseUrl(hostname), authToken: token ?? authToken })
    try {
      return (await client.execute(sql)).rows
    } finally {
      await client.close()
    }
  }
  await read('CREATE TABLE t (a)')
  await read('INSERT INTO t VALUES (1), (2), (3)')
  // writes reach the bucket within the interval
  await waitFor(() => {
    expect(store.keys.filter((key) => key.includes(created.dbId) && /-\d+\.\w+$/.test(key))).not.toEqual([])
    expect(store.keys.filter((key) => key.startsWith('one-list-'))).not.toEqual([])
  })
  await sleep(1_500)
  const loseDisk = async (): Promise<void> => {
    await server.close()
    await sqld.kill()
    await rm(disk, { recursive: true })
    await mkdir(disk)
  }
  await loseDisk()

  // without the settings, the new disk stays empty: the database is missing, and is not silently created again
  sqld = await start([])
  server = await startControlPlane(directory, sqld)
  await expect(selectRows()).rejects.toMatchObject({ status: 404 })
  await expect(
    openPlatformClient(server).databases.create({ name: 'app', group: 'default' }),
  ).rejects.toMatchObject({ status: 409 })
  await loseDisk()

  // without the list of databases, each database must be created once
  sqld = await start(rowsOnly)
  await sqld.admin.create(created.dbId, { allow_attach: false, block_reads: false, block_writes: false })
  server = await startControlPlane(directory, sqld)
  expect(await selectRows()).toEqual([{ a: 1 }, { a: 2 }, { a: 3 }])
  await loseDisk()

  // with both, the database exists again with its keys, and deleted databases do not
  sqld = await start(withList)
  server = await startControlPlane(directory, sqld)
  expect(await selectRows()).toEqual([{ a: 1 }, { a: 2 }, { a: 3 }])
  await expect(read('SELECT 1', 'no-token')).rejects.toMatchObject({ status: 401 })
  expect(await sqld.admin.exists(created.dbId)).toBe(true)
  await read('INSERT INTO t VALUES (4)')
  expect(await selectRows()).toHaveLength(4)
  const remaining = await openPlatformClient(server).databases.list().toArray({ limit: 10 })
  expect(remaining.map(({ name }) => name)).toEqual(['default', 'app'])
  await openPlatformClient(server).databases.delete('app')
  // its backup is removed shortly afterwards
  await waitFor(() => expect(store.keys.filter((key) => key.includes(created.dbId))).toEqual([]))
  await server.close()
})

test('rejects an unsuitable server, with a reason', async () => {
  const directory = createTemporaryDirectory()
  const withoutNamespaces = await startSqldForTest({ namespaces: false })
  await expect(startControlPlane(directory, withoutNamespaces)).rejects.toThrow(
    'start it with --enable-namespaces',
  )
  const withNamespaces = await startSqldForTest({ namespaces: true })
  const { adminUrl } = withNamespaces.adminAccess
  const wrongKey = createOptions(directory, withNamespaces.url, { adminUrl, adminKey: 'wrong' })
  await expect(startLocalServer(wrongKey)).rejects.toThrow(
    `no admin API at ${adminUrl} accepts the given key`,
  )
  const unusedUrl = `http://127.0.0.1:${await stablePort()}`
  await expect(
    startLocalServer(createOptions(directory, unusedUrl, withNamespaces.adminAccess)),
  ).rejects.toThrow(`no libsql-server responds at ${unusedUrl}`)
  await expect(
    startLocalServer(createOptions(directory, 'localhost', withNamespaces.adminAccess)),
  ).rejects.toThrow('sqld.url must have the form http://HOST:PORT')
  await expect(
    startLocalServer({
      ...createOptions(directory, withNamespaces.url, withNamespaces.adminAccess),
      backend: 'embedded',
    }),
  ).rejects.toThrow('sqld requires the back end "sqld"')
})

test('serves more databases than can be open at a time, without rejecting requests', async () => {
  // beyond that limit, the server occasionally returns 404 for existing databases
  const sqld = await startSqldForTest({
    namespaces: true,
    publicKeyPem: createUnusableKey(),
    maxOpenDatabases: 4,
  })
  const server = await startControlPlane(createTemporaryDirectory(), sqld)
  const platform = openPlatformClient(server)
  const names = Array.from({ length: 16 }, (_, index) => `db-${index}`)
  const hosts = await Promise.all(
    names.map(async (name) => (await platform.databases.create({ name, group: 'default' })).hostname),
  )
  const authToken = String(await platform.groups.createToken('default'))
  const statuses: Record<number, number> = {}
  const body = '{"requests":[{"type":"execute","stmt":{"sql":"SELECT 1"}},{"type":"close"}]}'
  const queue = Array.from({ length: 1_200 }, (_, index) => hosts[index % hosts.length] ?? '').reverse()
  const worker = async (): Promise<void> => {
    for (let host = queue.pop(); host !== undefined; host = queue.pop()) {
      const headers = { authorization: `Bearer ${authToken}` }
      const { status, text } = await fetch(`http://${host}/v2/pipeline`, {
        method: 'POST',
        headers,
        body,
      }).then(async (response) => ({ status: response.status, text: await response.text() }))
      statuses[status] = (statuses[status] ?? 0) + 1
      if (status === 200) expect(text).toContain('"value":"1"')
    }
  }
  await Promise.all(Array.from({ length: 4 }, worker))
  expect(statuses).toEqual({ 200: 1_200 })
  await server.close()
})
