import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { newKeyPair } from '@batonsql/server-common/auth'
import { newDatabaseId, type RemoteSqldOptions } from '@batonsql/server-common/backend'
import { expect, onTestFinished, test, vi } from 'vitest'
import { hasSqld } from '../../../../test/support/has-sqld.ts'
import { serveHttp } from '../../../../test/support/serve-http.ts'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import type { SqldAdmin } from './admin.ts'
import { findSqld } from './binary.ts'
import type { SqldChild } from './process.ts'
import { Upstream, type UpstreamOptions } from './upstream.ts'
import { READ_PERMISSIONS } from './upstream-tokens.ts'

const hasIPv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === '::1'),
)
const PIPELINE = { method: 'POST', path: '/v3/pipeline', query: '' }

/** Waits until nothing listens on a port. Run synchronously, so that this process handles no events, such as the exit of a child. */
const WAIT_UNTIL_REFUSED = `
  const connect = () => require('node:net').connect(Number(process.argv[1]), '127.0.0.1')
    .on('connect', () => setTimeout(connect, 10)).on('error', () => {})
  connect()`

const createUpstream = (directory: string, options: Partial<UpstreamOptions> = {}): Upstream =>
  new Upstream(
    {
      directory,
      isOpen: true,
      controlKey: newKeyPair(),
      sqldPath: undefined,
      remote: undefined,
      ...options,
    },
    { onStart() {}, filterAttachable: () => [] },
  )

async function startUpstream(remote?: RemoteSqldOptions): Promise<Upstream> {
  const upstream = createUpstream(createTemporaryDirectory(), { remote })
  onTestFinished(() => upstream.close())
  await upstream.start()
  return upstream
}

test.runIf(hasSqld)('calls to the admin API are retried if the server has just exited', async () => {
  const upstream = await startUpstream()
  const { pid, adminAccess } = (await upstream.ensureRunning()) as SqldChild
  process.kill(pid, 'SIGKILL')
  spawnSync(process.execPath, ['-e', WAIT_UNTIL_REFUSED, new URL(adminAccess.adminUrl).port], {
    timeout: 30_000,
  })
  const called: SqldAdmin[] = []
  const id = newDatabaseId()
  await upstream.withAdmin(async (admin) => {
    called.push(admin)
    await admin.create(id, { allow_attach: false, block_reads: false, block_writes: false })
  })
  expect(new Set(called).size).toBe(2)
  expect(await upstream.exists(id)).toBe(true)
})

test.runIf(hasSqld)('another port for replicas is used if the first was taken meanwhile', async () => {
  const folder = createTemporaryDirectory()
  const sqldPath = join(folder, 'sqld')
  // the port for replicas stays the same while the server is started with other ports for itself
  writeFileSync(
    sqldPath,
    `#!/bin/sh
    grpc=$(printf '%s\\n' "$@" | grep --after-context=1 '^--grpc-listen-addr$' | tail -1)
    [ -e ${folder}/taken ] || printf '%s' "$grpc" > ${folder}/taken
    if [ "$grpc" = "$(cat ${folder}/taken)" ]; then echo 'Address already in use' >&2; exit 1; fi
    exec ${await findSqld()} "$@"`,
    { mode: 0o700 },
  )
  const upstream = createUpstream(createTemporaryDirectory(), { sqldPath, servesReplicas: true })
  onTestFinished(() => upstream.close())
  await upstream.start()
  expect(await upstream.grpcPort()).toBeGreaterThan(0)
})

test.runIf(hasSqld)('closing during or before a restart leaves no server running', async () => {
  const upstream = await startUpstream()
  const { pid } = (await upstream.ensureRunning()) as SqldChild
  const restarted = upstream.restart()
  await upstream.close()
  await restarted
  await upstream.restart()
  const last = (await upstream.ensureRunning().catch(() => null)) as SqldChild | null
  expect([upstream.isRunning, last]).toEqual([false, null])
  expect(() => process.kill(pid, 0)).toThrow()
})

test.runIf(hasSqld)(
  'a failed lookup of a database that the server reports as missing is not repeated',
  async () => {
    const upstream = await startUpstream()
    const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })
    const lookups = vi.spyOn(upstream, 'exists').mockRejectedValue(refused)
    const call = { id: newDatabaseId(), request: PIPELINE, permissions: READ_PERMISSIONS }
    await expect(upstream.send(call, '{"requests":[]}')).rejects.toBe(refused)
    expect(lookups).toHaveBeenCalledTimes(1)
  },
)

test.skipIf(!hasIPv6)('a remote server may have an IPv6 address', async () => {
  const paths: (string | undefined)[] = []
  const server = createServer((request, response) => {
    paths.push(request.url)
    response.end('sqld admin API')
  }).listen(0, '::1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const url = `http://[::1]:${(server.address() as AddressInfo).port}`
  const upstream = await startUpstream({ url, adminUrl: url, adminKey: 'key' })
  const call = { id: newDatabaseId(), request: PIPELINE, permissions: READ_PERMISSIONS }
  expect((await upstream.send(call, '{"requests":[]}')).status).toBe(200)
  expect(paths).toEqual(['/version', '/', '/v3/pipeline'])
})

test('another server at the address of a remote server is not mistaken for it', async () => {
  const { url } = await serveHttp((_, response) => void response.end('<html>sqld admin API</html>'))
  await expect(startUpstream({ url, adminUrl: url, adminKey: 'key' })).rejects.toThrow(
    `no libsql-server responds at ${url}`,
  )
})

test('the keys of replicas are created again after a failure', async () => {
  const directory = createTemporaryDirectory()
  const upstream = createUpstream(directory)
  const folder = join(directory, 'replication-keys')
  writeFileSync(folder, '')
  await expect(upstream.replicationKeys()).rejects.toThrow('EEXIST')
  rmSync(folder)
  expect(await upstream.replicationKeys()).toBe(await upstream.replicationKeys())
})
