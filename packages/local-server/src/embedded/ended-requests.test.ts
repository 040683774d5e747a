// Calls that end the requests to a database resolve once the requests in flight have ended.

import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { DatabaseWorker, NotBegunError } from '@batonsql/embedded-engine'
import { type DatabaseId, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'
import type { ServiceResponse } from '@batonsql/server-common/http'
import { expect, test, vi } from 'vitest'
import { serviceRequest } from '../../../../test/server/service-request.ts'
import { execute } from '../../../../test/server/wire.ts'
import { openBackend } from '../../test-support/open-backend.ts'
import type { EmbeddedBackend, EmbeddedOptions } from './backend.ts'

const [APP, OTHER] = ['app' as DatabaseId, 'other' as DatabaseId]
const ENDLESS_READ = 'with recursive c(i) as (select 1 union all select i + 1 from c) select count(*) from c'

async function openDatabases(options: Partial<EmbeddedOptions> = {}): Promise<EmbeddedBackend> {
  const { backend } = await openBackend(options)
  await backend.create(APP, { type: 'empty' }, DEFAULT_SETTINGS)
  await backend.create(OTHER, { type: 'empty' }, { ...DEFAULT_SETTINGS, allowAttach: true })
  return backend
}

interface TrackedCall<T> {
  readonly result: Promise<T>
  hasEnded(): Promise<boolean>
}

function track<T>(call: Promise<T>): TrackedCall<T> {
  let hasEnded = false
  const result = call.finally(() => {
    hasEnded = true
  })
  return {
    result,
    async hasEnded() {
      await nextTurn()
      return hasEnded
    },
  }
}

/** Sends a statement, and resolves once it has been received. */
async function send(
  backend: EmbeddedBackend,
  sql: string,
  { id = APP, controller = new AbortController() } = {},
): Promise<TrackedCall<ServiceResponse>> {
  const request = serviceRequest({ requests: [execute(sql)] }, { controller })
  const call = track(backend.handle(id, request))
  await once(request.body, 'close')
  await nextTurn()
  return call
}

/** Stops the timers, because on a slow machine the requests could exceed their time limits. */
function stopTimers(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
}

test('revoking access waits for a write in flight, and aborts it after two seconds', async () => {
  const backend = await openDatabases()
  await (await send(backend, 'create table t(a)')).result
  const write = await send(backend, `insert into t ${ENDLESS_READ}`)
  stopTimers()
  const revocation = track(backend.revokeAccess(APP, 'all'))
  expect([await revocation.hasEnded(), await write.hasEnded()]).toEqual([false, false])
  vi.advanceTimersByTime(2_000)
  await revocation.result
  expect(await write.hasEnded()).toBe(true)
})

test('stopping the server resolves once a read in flight has ended', async () => {
  const backend = await openDatabases()
  const read = await send(backend, ENDLESS_READ)
  expect(await read.hasEnded()).toBe(false)
  stopTimers()
  await backend.abortRequests()
  expect(await read.hasEnded()).toBe(true)
})

test('disallowing ATTACH of a database waits for a request that is attaching it', async () => {
  const attaching = Promise.withResolvers<void>()
  const backend = await openDatabases({
    resolveName(_from, name) {
      attaching.resolve()
      return name as DatabaseId
    },
  })
  // the copy of the database is made after this read
  const controller = new AbortController()
  await send(backend, ENDLESS_READ, { id: OTHER, controller })
  const attach = await send(backend, 'attach other as x')
  await attaching.promise
  stopTimers()
  const change = track(backend.applySettings(OTHER, DEFAULT_SETTINGS))
  // long enough for `change` to finish if it did not wait
  for (let round = 0; round < 3; round += 1) await backend.applySettings(APP, DEFAULT_SETTINGS)
  expect([await change.hasEnded(), await attach.hasEnded()]).toEqual([false, false])
  controller.abort()
  await change.result
  expect(await attach.hasEnded()).toBe(true)
})

test('the health of a database that is being closed is read after it has been opened again', async () => {
  const backend = await openDatabases()
  const run = vi.spyOn(DatabaseWorker.prototype, 'run')
  run.mockRejectedValueOnce(new NotBegunError('the database was closed'))
  expect(await backend.findHealthProblem(APP)).toBe(null)
  expect(run).toHaveBeenCalledTimes(2)
})
