import { readFile, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { newKeyPair } from '@batonsql/server-common/auth'
import { DEFAULT_SETTINGS, newDatabaseId, ReplicaConditions } from '@batonsql/server-common/backend'
import { toResponse } from '@batonsql/server-common/http'
import { expect, onTestFinished, test } from 'vitest'
import { serviceRequest } from '../../../../test/server/service-request.ts'
import { close, execute } from '../../../../test/server/wire.ts'
import { freezeProcess } from '../../../../test/support/freeze-process.ts'
import { hasSqld } from '../../../../test/support/has-sqld.ts'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { SqldBackend } from '../backend.ts'
import { findSqld } from '../process/binary.ts'
import { type SqldProcess, startSqld } from '../process/process.ts'

const ENDLESS_INSERT =
  'INSERT INTO t WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c'
/** Longer than it takes to detect a server that no longer responds to writes. */
const AFTER_STALL_CHECK_MS = 2_000

/** Starts a back end with short time limits and a database. */
async function startBackend(remote: SqldProcess | null = null, sqldPath?: string) {
  const directory = createTemporaryDirectory()
  const notices: string[] = []
  const id = newDatabaseId()
  const backend = new SqldBackend({
    directory,
    isOpen: true,
    controlKey: newKeyPair(),
    sqldPath,
    remote: remote === null ? undefined : { url: remote.url, ...remote.adminAccess },
    onNotice: (_, notice) => void notices.push(notice),
    conditions: new ReplicaConditions(),
    stallTimes: { stallAfterMs: 200, probeTimeoutMs: 200 },
  })
  onTestFinished(() => backend[Symbol.asyncDispose]())
  await backend.start()
  await backend.create(id, { type: 'empty' }, DEFAULT_SETTINGS)
  const run = async (sql: string, controller = new AbortController()) => {
    const request = serviceRequest({ requests: [execute(sql), close] }, { controller })
    const response = await backend.handle(id, request)
    return { status: response.status, body: await toResponse(response).text() }
  }
  const readPid = async (): Promise<number> =>
    (JSON.parse(await readFile(join(directory, 'sqld.pid'), 'utf8')) as { pid: number }).pid
  await run('CREATE TABLE t(a)')
  return { run, notices, readPid, findHealthProblem: () => backend.findHealthProblem(id) }
}

test.skipIf(!hasSqld)(
  'restarts a server that no longer responds to writes, and keeps acknowledged writes',
  async () => {
    const { run, notices, readPid, findHealthProblem } = await startBackend()
    expect((await run('INSERT INTO t VALUES (1)')).status).toBe(200)
    const pid = await readPid()
    expect(await findHealthProblem()).toBe(null)
    await freezeProcess(pid)
    const writes = [run('INSERT INTO t VALUES (2)'), run('BEGIN IMMEDIATE')]
    await expect.poll(findHealthProblem, { timeout: 60_000 }).toMatch('libsql-server')
    for (const { status, body } of await Promise.all(writes))
      expect([status, body]).toEqual([502, expect.stringContaining('it is unknown whether')])
    await expect
      .poll(() => notices)
      .toEqual([
        expect.stringContaining('and responds to nothing: restarting it'),
        expect.stringContaining('was restarted'),
      ])
    expect(await readPid()).not.toBe(pid)
    expect(await findHealthProblem()).toBe(null)
    expect((await run('INSERT INTO t VALUES (3)')).status).toBe(200)
    expect((await run('SELECT group_concat(a) FROM t WHERE a <> 2')).body).toContain('"1,3"')
  },
)

test.skipIf(!hasSqld)('reports that a stalled server could not be restarted', async () => {
  const sqldPath = join(createTemporaryDirectory(), 'sqld')
  await symlink(await findSqld(), sqldPath)
  const { run, notices, readPid } = await startBackend(null, sqldPath)
  await rm(sqldPath)
  await freezeProcess(await readPid())
  const write = run('INSERT INTO t VALUES (1)')
  await expect.poll(() => notices).toContainEqual(expect.stringContaining('could not be restarted'))
  await write.catch(() => {})
})

test.skipIf(!hasSqld)('does not restart a server with a long-running statement', async () => {
  const { run, notices, readPid, findHealthProblem } = await startBackend()
  const pid = await readPid()
  const client = new AbortController()
  const longStatement = run(ENDLESS_INSERT, client).catch(() => {})
  const queuedWrite = run('INSERT INTO t VALUES (1)')
  await sleep(AFTER_STALL_CHECK_MS)
  expect([notices, await readPid(), await findHealthProblem()]).toEqual([[], pid, null])
  client.abort()
  await longStatement
  const { status, body } = await queuedWrite
  expect([status, body]).toEqual([200, expect.stringContaining('"affected_row_count":1')])
  expect([notices, await readPid()]).toEqual([[], pid])
})

test.skipIf(!hasSqld)('reports a stalled remote server without restarting it', async () => {
  const sqld = await startSqld({ namespaces: true })
  onTestFinished(() => sqld.close())
  const { run, notices, findHealthProblem } = await startBackend(sqld)
  await freezeProcess(sqld.pid)
  const write = run('INSERT INTO t VALUES (1)')
  await expect
    .poll(() => notices, { timeout: 60_000 })
    .toEqual([expect.stringContaining('restart the server')])
  expect(await findHealthProblem()).toContain('has not responded to a write')
  process.kill(sqld.pid, 'SIGCONT')
  expect((await write).status).toBe(200)
  await expect.poll(findHealthProblem).toBe(null)
  expect([notices.length, sqld.isRunning]).toEqual([1, true])
})
