import { generateKeyPairSync } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@batonsql/core'
import { createPlatformClient, databaseUrl } from '@batonsql/core/platform'
import { type LocalServer, type LocalServerOptions, startLocalServer } from '@batonsql/local-server'
import { type SqldProcess, startSqld } from '@batonsql/local-server/sqld'
import { expect, onTestFinished, test } from 'vitest'
import { stablePort } from '../targets/stable-port.ts'

// The recipes of docs/self-hosting.md.

async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'baton-recipe-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
  return directory
}

async function started(options: Parameters<typeof startSqld>[0]): Promise<SqldProcess> {
  const server = await startSqld(options)
  onTestFinished(() => server.close())
  return server
}

function controlPlane(dataDirectory: string, { url, adminAccess }: SqldProcess): Promise<LocalServer> {
  return startLocalServer(overSqld(dataDirectory, url, adminAccess))
}

function overSqld(
  dataDirectory: string,
  url: string,
  access: { readonly adminUrl: string; readonly adminKey: string },
): LocalServerOptions {
  return { backend: 'sqld', dataDirectory, platform: {}, sqld: { url, ...access } }
}

function platformOf({ platform }: LocalServer) {
  if (platform === null) throw new Error('no platform')
  const { url: baseUrl, token, organization } = platform
  return createPlatformClient({ baseUrl, token, organization })
}

test('a primary with two replicas behind the control plane', { timeout: 60_000 }, async () => {
  const [grpc, port] = [`127.0.0.1:${await stablePort()}`, await stablePort()]
  const own = `http://127.0.0.1:${port}`
  // nobody has the other half: it closes what has no key of its own
  const { publicKey } = generateKeyPairSync('ed25519')
  const publicKeyPem = publicKey.export({ type: 'spki', format: 'pem' }).toString()
  const primary = await started({
    namespaces: true,
    publicKeyPem,
    port,
    serverArguments: ['--grpc-listen-addr', grpc, '--http-self-url', own],
  })
  const replicas: SqldProcess[] = []
  for (const _ of [1, 2]) {
    const replicaPort = await stablePort()
    const self = `http://127.0.0.1:${replicaPort}`
    const of = ['--primary-grpc-url', `http://${grpc}`, '--http-primary-url', own, '--http-self-url', self]
    replicas.push(await started({ namespaces: true, publicKeyPem, port: replicaPort, serverArguments: of }))
  }
  const directory = await temporaryDirectory()
  let server = await controlPlane(directory, primary)
  let platform = platformOf(server)
  const created = await platform.databases.create({ name: 'app', group: 'default' })
  const authToken = String(await platform.databases.createToken('app'))
  const db = createClient({ url: databaseUrl(created.hostname), authToken })
  await db.batch(['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1)'])

  // a replica is asked by its own URL; the proxy in front of it says for which database
  const headers = { 'x-namespace-bin': Buffer.from(created.dbId).toString('base64').replaceAll('=', '') }
  const readers = replicas.map(({ url }) => createClient({ url, authToken, headers }))
  for (const reader of readers) {
    let rows: unknown[] = []
    for (let attempt = 0; attempt < 100 && rows.length === 0; attempt += 1) {
      rows = await reader.execute('SELECT a FROM t').then(
        (result) => result.rows,
        () => [],
      )
      if (rows.length === 0) await sleep(50)
    }
    expect(rows).toEqual([{ a: 1 }])
  }
  // libsql-server does not hand tokens on: writes belong to the primary
  await expect(readers[0]?.execute('INSERT INTO t VALUES (2)')).rejects.toThrow('Error parsing auth header')
  await expect(
    createClient({ url: replicas[0]?.url ?? '', headers }).execute('SELECT 1'),
  ).rejects.toMatchObject({
    status: 401,
  })

  // what the control plane knows survives it; what it changes reaches the replicas
  await db.close()
  await server.close()
  server = await controlPlane(directory, primary)
  platform = platformOf(server)
  expect((await platform.databases.get('app')).dbId).toBe(created.dbId)
  await platform.databases.rotateTokens('app')
  for (const reader of readers) {
    let refused = false
    for (let attempt = 0; attempt < 100 && !refused; attempt += 1) {
      refused = await reader.execute('SELECT 1').then(
        () => false,
        (error: { status?: number }) => error.status === 401,
      )
      if (!refused) await sleep(50)
    }
    expect(refused).toBe(true)
    await reader.close()
  }
  await platform.databases.delete('app')
  await server.close()
})

test('a server that is not meant for it is refused with a reason', async () => {
  const directory = await temporaryDirectory()
  const single = await started({ namespaces: false })
  await expect(controlPlane(directory, single)).rejects.toThrow('start it with --enable-namespaces')
  const many = await started({ namespaces: true })
  const { adminUrl } = many.adminAccess
  const wrongKey = overSqld(directory, many.url, { adminUrl, adminKey: 'wrong' })
  await expect(startLocalServer(wrongKey)).rejects.toThrow(`no admin API at ${adminUrl} takes the key`)
  const nobody = `http://127.0.0.1:${await stablePort()}`
  await expect(startLocalServer(overSqld(directory, nobody, many.adminAccess))).rejects.toThrow(
    `no libsql-server answers at ${nobody}`,
  )
  await expect(startLocalServer(overSqld(directory, 'localhost', many.adminAccess))).rejects.toThrow(
    'sqld.url looks like http://HOST:PORT',
  )
  await expect(
    startLocalServer({ ...overSqld(directory, many.url, many.adminAccess), backend: 'embedded' }),
  ).rejects.toThrow('sqld needs the back end "sqld"')
})
