import { spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newKeyPair } from '@batonsql/server-common/auth'
import { newDatabaseId } from '@batonsql/server-common/backend'
import { expect, onTestFinished, test } from 'vitest'
import type { SqldAdmin } from './admin.ts'
import { findSqld } from './binary.ts'
import type { SqldProcess } from './process.ts'
import { Upstream } from './upstream.ts'

const isMissing = await findSqld().then(
  () => false,
  () => true,
)

/** Waits until nothing listens on a port. Run synchronously, so that this process handles no events, such as the exit of a child. */
const WAIT_UNTIL_REFUSED = `
  const connect = () => require('node:net').connect(Number(process.argv[1]), '127.0.0.1')
    .on('connect', () => setTimeout(connect, 10)).on('error', () => {})
  connect()`

test.skipIf(isMissing)('calls to the admin API are retried if the server has just exited', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  const upstream = new Upstream(
    { directory, isOpen: true, controlKey: newKeyPair(), sqldPath: undefined, remote: undefined },
    { onStart() {}, filterAttachable: () => [] },
  )
  onTestFinished(async () => {
    await upstream.close()
    await rm(directory, { recursive: true, force: true, maxRetries: 5 })
  })
  await upstream.start()
  const { pid, adminAccess } = (await upstream.ensureRunning()) as SqldProcess
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
