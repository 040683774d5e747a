// A replica that does not start affects neither its primary nor the other databases of the group.
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { createClient } from '@batonsql/core'
import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { findSqld } from '@batonsql/local-server/sqld'
import { describe, expect, inject, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { groupFolders } from './platform-harness.ts'

const REASON = 'thread panicked at /build/secret.rs'

/** Writes a program that fails if it is started with an option, and otherwise runs libsql-server. */
async function failWith(option: string): Promise<string> {
  const file = join(createTemporaryDirectory(), 'sqld')
  const script = `#!/bin/sh
case "$*" in *${option}*) echo '${REASON}' >&2; exit 1;; esac
exec '${await findSqld()}' "$@"
`
  await writeFile(file, script)
  await chmod(file, 0o755)
  return file
}

/** Collects what the server logs. */
function collectLog(): () => string {
  const parts: string[] = []
  vi.spyOn(console, 'error').mockImplementation((...values: unknown[]) => {
    for (const value of values)
      parts.push(value instanceof Error ? `${value.message} ${String(value.cause)}` : String(value))
  })
  return () => parts.join('\n')
}

async function select(url: string, authToken: string | undefined): Promise<unknown> {
  await using db = createClient({ url, ...(authToken !== undefined && { authToken }), maxRetries: 0 })
  return (await db.execute('select 1 as one')).rows
}

async function requestPlatform(server: LocalServer, method: string, path: string) {
  const { url = '', token = '', organization = '' } = server.platform ?? {}
  const response = await fetch(`${url}/v1/organizations/${organization}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}` },
    ...(method === 'POST' && { body: JSON.stringify({ location: 'fra' }) }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

const FAILURE = "the replica in fra did not start; the server's log shows the reason"
const ROWS = [{ one: 1 }]

describe.runIf(inject('target') === 'sqld')('a replica', () => {
  test.each(['--primary-grpc-url', '--grpc-listen-addr'])(
    'that does not start because %s fails is not added, and nothing else is affected',
    async (option) => {
      const log = collectLog()
      const dataDirectory = createTemporaryDirectory()
      await using server = await startLocalServer({
        backend: 'sqld',
        sqldPath: await failWith(option),
        dataDirectory,
        platform: {},
      })
      const databases = [await server.createDatabase('app'), await server.createDatabase('other')]
      const readPid = async () => {
        const [group] = await groupFolders(dataDirectory)
        return JSON.parse(await readFile(join(group as string, 'sqld.pid'), 'utf8')).pid as number
      }
      const additions = ['/groups/default/locations/fra', '/databases/app/instances']
      for (const path of additions)
        expect(await requestPlatform(server, 'POST', path)).toMatchObject({
          status: 502,
          body: { error: FAILURE },
        })
      const pid = await readPid()
      expect((await requestPlatform(server, 'POST', additions[0] as string)).status).toBe(502)
      expect(await readPid(), 'the primary is not restarted by each attempt').toBe(pid)
      for (const { url, authToken } of databases) expect(await select(url, authToken)).toEqual(ROWS)
      const { body } = await requestPlatform(server, 'GET', '/groups/default')
      expect(body).toMatchObject({ group: { locations: ['local'] } })
      expect(
        (await requestPlatform(server, 'GET', '/databases/app/instances')).body['instances'],
      ).toHaveLength(1)
      expect(log()).toContain(REASON)
    },
  )

  test.each(['--primary-grpc-url', '--grpc-listen-addr'])(
    'of the options that does not start because %s fails responds with 503',
    async (option) => {
      const log = collectLog()
      await using server = await startLocalServer({
        backend: 'sqld',
        sqldPath: await failWith(option),
        replicas: ['fra'],
      })
      const { fra = '' } = server.replicaUrls('default')
      const rejection = expect(select(fra, undefined)).rejects
      await rejection.toMatchObject({ status: 503, message: expect.stringContaining(FAILURE) })
      await expect(select(fra, undefined)).rejects.not.toThrow(REASON)
      expect((await fetch(`${fra}health`)).status).toBe(503)
      expect((await fetch(`${server.url}/health`)).status).toBe(200)
      expect(await select(server.url, undefined)).toEqual(ROWS)
      expect(log()).toContain(REASON)
    },
  )

  test('starts if the data directory is given by a relative path', async () => {
    const dataDirectory = relative(process.cwd(), createTemporaryDirectory())
    await using server = await startLocalServer({ backend: 'sqld', dataDirectory, replicas: ['fra'] })
    const { fra = '' } = server.replicaUrls('default')
    await using db = createClient({ url: fra })
    await db.execute('create table t (a)')
    expect((await db.execute('select * from t')).rows).toEqual([])
  })

  test('can be added to a server whose data directory is given by a relative path', async () => {
    const dataDirectory = relative(process.cwd(), createTemporaryDirectory())
    await using server = await startLocalServer({ backend: 'sqld', dataDirectory, platform: {} })
    const { url, authToken } = await server.createDatabase('app')
    expect(await select(url, authToken)).toEqual(ROWS)
    expect((await requestPlatform(server, 'POST', '/groups/default/locations/fra')).status).toBe(200)
    expect(await select(url, authToken)).toEqual(ROWS)
    expect(await select(server.replicaUrls('app')['fra'] as string, authToken)).toEqual(ROWS)
  })
})
