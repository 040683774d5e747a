import { Readable } from 'node:stream'
import { newKeyPair } from '@batonsql/server-common/auth'
import { newDatabaseId, type RevokedAccess, RunningRequests } from '@batonsql/server-common/backend'
import { expect, onTestFinished, test } from 'vitest'
import { createTemporaryDirectory } from '../../../test/support/temporary-directory.ts'
import { InternalRequests } from './process/internal-requests.ts'
import { Upstream } from './process/upstream.ts'
import { StreamRequests } from './stream-requests.ts'
import { WriteService } from './writes/write-service.ts'

test.each<RevokedAccess>(['writes', 'all'])(
  'a write is not sent if its access was revoked (%s) before it entered',
  async (access) => {
    const options = {
      directory: createTemporaryDirectory(),
      isOpen: true,
      controlKey: newKeyPair(),
      sqldPath: undefined,
      remote: undefined,
    }
    // not started: a request that is sent rejects
    const upstream = new Upstream(options, { onStart: () => {}, filterAttachable: () => [] })
    const internal = new InternalRequests(upstream)
    const [waiting, mayEnter] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const writes = new WriteService(upstream, internal, {
      getFile: null,
      beforeWrite: async () => {
        waiting.resolve()
        await mayEnter.promise
      },
      onNotice: () => {},
      stallTimes: undefined,
    })
    onTestFinished(() => writes.close())
    const [id, requests, controller] = [newDatabaseId(), new RunningRequests(), new AbortController()]
    const running = requests.begin(id, controller)
    const body = JSON.stringify({
      requests: [{ type: 'execute', stmt: { sql: 'INSERT INTO t VALUES (1)' } }],
    })
    const request = {
      method: 'POST',
      path: '/v3/pipeline',
      query: '',
      headers: {},
      body: Readable.from([Buffer.from(body)]),
      remoteAddress: undefined,
      controller,
    }
    const rules = {
      permissions: { write: true, changeSharedSchema: true, attach: [] },
      blockReads: false,
      blockWrites: false,
      isSchema: false,
      migrationRejection: null,
      resolveName: () => undefined,
    }
    const streams = new StreamRequests(upstream, internal, writes)
    const response = streams.handle(id, { request, running }, () => rules).finally(() => running.release())
    await waiting.promise
    const revocation = requests.revoke(id, access)
    mayEnter.resolve()
    expect((await response).status).toBe(403)
    expect(await revocation).toEqual([])
  },
)
