import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { newKeyPair, signToken } from '@batonsql/server-common/auth'
import {
  DEFAULT_SETTINGS,
  MissingFileError,
  newDatabaseId,
  ReplicaConditions,
} from '@batonsql/server-common/backend'
import { toResponse } from '@batonsql/server-common/http'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { serviceRequest } from '../../../test/server/service-request.ts'
import { execute } from '../../../test/server/wire.ts'
import { hasSqld } from '../../../test/support/has-sqld.ts'
import { createTemporaryDirectory } from '../../../test/support/temporary-directory.ts'
import { SqldBackend, type SqldBackendOptions } from './backend.ts'
import { SqldAdmin } from './process/admin.ts'
import { findSqld } from './process/binary.ts'

const KEYS = newKeyPair()
const ATTACHABLE = { ...DEFAULT_SETTINGS, keys: [KEYS.publicPem], allowAttach: true }

/** Creates a back end that is not started; `send` sends it a pipeline. */
function createBackend(options: Partial<SqldBackendOptions> = {}) {
  const backend = new SqldBackend({
    directory: createTemporaryDirectory(),
    isOpen: false,
    controlKey: newKeyPair(),
    sqldPath: undefined,
    remote: undefined,
    onNotice: () => {},
    conditions: new ReplicaConditions(),
    ...options,
  })
  onTestFinished(() => backend[Symbol.asyncDispose]())
  const send = async (
    id: Parameters<SqldBackend['handle']>[0],
    sql: readonly string[],
    { claims = { id }, location = null }: { claims?: object; location?: string | null } = {},
  ): Promise<string> => {
    const requests = sql.map((text) => execute(text))
    const headers = { authorization: `Bearer ${signToken(KEYS, claims as Record<string, unknown>)}` }
    const response = await backend.handle(id, serviceRequest({ requests }, { headers }), location)
    return `${response.status} ${await toResponse(response).text()}`
  }
  return { backend, send }
}

test('a rejection of a request to a replica that was removed is definite', async () => {
  const { send } = createBackend({ isReplicaLocation: () => false })
  expect(await send(newDatabaseId(), ['SELECT 1'], { location: 'fra' })).toMatch(/^401 .*JWT is invalid/)
})

describe.skipIf(!hasSqld)('on a server', () => {
  test('counts a write through a replica that is the first use of the database since the start', async () => {
    const [id, directory, controlKey] = [newDatabaseId(), createTemporaryDirectory(), newKeyPair()]
    const open = async () => {
      const opened = createBackend({ directory, controlKey, servesReplicas: true })
      await opened.backend.start()
      return opened
    }
    {
      const { backend, send } = await open()
      await backend.create(id, { type: 'empty' }, ATTACHABLE)
      await send(id, ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (1), (2)'])
      await backend[Symbol.asyncDispose]()
    }
    const { backend, send } = await open()
    await backend.applySettings(id, ATTACHABLE)
    expect(await send(id, ['INSERT INTO t VALUES (3)'], { location: 'fra' })).toMatch(
      /^200 .*"last_insert_rowid":"3"/,
    )
    expect((await backend.sampleUsage(id)).rowsWritten).toBe(1)
  })

  test.each(['create', 'stats', 'remove'] as const)(
    'an administrative call that is interrupted by a restart of the server is repeated: %s',
    async (method) => {
      const { backend } = createBackend()
      await backend.start()
      const [other, id] = [newDatabaseId(), newDatabaseId()]
      await backend.create(other, { type: 'empty' }, ATTACHABLE)
      const interrupted = vi.spyOn(SqldAdmin.prototype, method).mockImplementationOnce(async () => {
        await backend.freeze(other, 'frozen')
        throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })
      })
      await backend.create(id, { type: 'empty' }, ATTACHABLE)
      await backend.sampleUsage(id)
      await backend.remove(id)
      expect(interrupted.mock.calls.length).toBeGreaterThan(1)
      await expect(backend.sampleUsage(id)).rejects.toThrow(MissingFileError)
    },
  )

  test('a database can be removed while a replica of it is being removed', async () => {
    const { backend, send } = createBackend({ servesReplicas: true })
    await backend.start()
    const id = newDatabaseId()
    await backend.create(id, { type: 'empty' }, ATTACHABLE)
    await backend.applySettings(id, ATTACHABLE)
    await send(id, ['SELECT 1'], { location: 'fra' })
    const { remove } = SqldAdmin.prototype
    const removals = vi.spyOn(SqldAdmin.prototype, 'remove').mockImplementation(async function (
      this: SqldAdmin,
      ...args
    ) {
      if (removals.mock.calls.length === 1) return await remove.apply(this, args)
      await backend.changeReplicas(() => [])
      throw new Error('Namespace store has shutdown')
    })
    await backend.remove(id)
    expect(removals).toHaveBeenCalledTimes(2)
  })

  test('a database whose settings are unknown cannot be attached', async () => {
    const [own, other, directory, controlKey] = [
      newDatabaseId(),
      newDatabaseId(),
      createTemporaryDirectory(),
      newKeyPair(),
    ]
    const claims = { p: { rw: { ns: [own] }, roa: { ns: [other] } } }
    const statements = [`ATTACH "${other}" AS o`, 'SELECT count(*) FROM o.t']
    const first = createBackend({ directory, controlKey })
    await first.backend.start()
    for (const id of [own, other]) await first.backend.create(id, { type: 'empty' }, ATTACHABLE)
    await first.send(other, ['CREATE TABLE t (a)'])
    expect(await first.send(own, statements, { claims })).toContain('"value":"0"')
    await first.backend[Symbol.asyncDispose]()

    const second = createBackend({ directory, controlKey })
    await second.backend.start()
    await second.backend.applySettings(own, ATTACHABLE)
    expect(await second.send(own, statements, { claims })).not.toContain('"value":"0"')
    await second.backend.applySettings(other, ATTACHABLE)
    expect(await second.send(own, statements, { claims })).toContain('"value":"0"')
  })

  test('a database that is being removed cannot be attached', async () => {
    const { backend, send } = createBackend()
    await backend.start()
    const [own, removed] = [newDatabaseId(), newDatabaseId()]
    for (const id of [own, removed]) await backend.create(id, { type: 'empty' }, ATTACHABLE)
    await send(removed, ['CREATE TABLE t (a)'])
    const claims = { p: { rw: { ns: [own] }, roa: { ns: [removed] } } }
    const statements = [`ATTACH "${removed}" AS o`, 'SELECT count(*) FROM o.t']
    expect(await send(own, statements, { claims })).toContain('"value":"0"')
    // the response of the server, which closes this stream, takes longer than receiving the body of the next request
    await send(removed, ['BEGIN'])
    const removal = backend.remove(removed)
    expect(await send(own, statements, { claims })).not.toContain('"value":"0"')
    await removal
  })
  test('a replica that has not loaded an unblocked database serves it only when it has the latest settings', async () => {
    const conditions = new ReplicaConditions()
    const { backend, send } = createBackend({ servesReplicas: true, conditions })
    await backend.start()
    const id = newDatabaseId()
    await backend.create(id, { type: 'empty' }, ATTACHABLE)
    await send(id, ['CREATE TABLE t (a)'])
    const count = () => send(id, ['SELECT count(*) FROM t'], { location: 'fra' })
    await expect.poll(count).toContain('"value":"0"')
    conditions.change('fra', { lagMs: 2 ** 30 })
    await send(id, ['INSERT INTO t VALUES (1)'])
    // until a replica has received the table, it forwards reads of it to the primary
    await expect.poll(count).toContain('"value":"0"')
    await backend.applySettings(id, { ...ATTACHABLE, blockReads: true })
    await backend.applySettings(id, ATTACHABLE)
    // asked before the replica has loaded the database with the settings that it had at that time
    vi.spyOn(SqldAdmin.prototype, 'readConfig').mockResolvedValueOnce(null)
    expect(await count()).toContain('"value":"0"')
    expect(await count()).toContain('"value":"1"')
  })

  test('access is revoked, and settings are applied, while a replica is starting', async () => {
    const folder = createTemporaryDirectory()
    const getPath = (name: string): string => join(folder, name)
    const sqldPath = getPath('sqld')
    writeFileSync(
      sqldPath,
      `#!/bin/sh
      case "$*" in
        *replicas/fra*) : > ${getPath('begun')}; until [ -e ${getPath('may-start')} ]; do sleep 0.05; done;;
      esac
      exec ${await findSqld()} "$@"`,
      { mode: 0o700 },
    )
    const { backend, send } = createBackend({ servesReplicas: true, sqldPath })
    await backend.start()
    const [id, other] = [newDatabaseId(), newDatabaseId()]
    for (const created of [id, other]) await backend.create(created, { type: 'empty' }, ATTACHABLE)
    const request = send(other, ['SELECT 1'], { location: 'fra' })
    await expect.poll(() => existsSync(getPath('begun'))).toBe(true)
    await backend.applySettings(id, { ...ATTACHABLE, blockReads: true })
    await backend.applySettings(id, ATTACHABLE)
    await backend.revokeAccess(id, 'all')
    await backend.remove(id)
    writeFileSync(getPath('may-start'), '')
    // it would have failed if these calls had waited for it
    expect(await request).toMatch(/^200 /)
  })
})
