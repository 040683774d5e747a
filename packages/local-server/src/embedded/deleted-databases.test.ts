// Requests in flight while their database is deleted.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { type DatabaseId, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'
import type { ServiceResponse } from '@batonsql/server-common/http'
import { expect, test } from 'vitest'
import { serviceRequest } from '../../../../test/server/service-request.ts'
import { execute } from '../../../../test/server/wire.ts'
import { openBackend } from '../../test-support/open-backend.ts'
import type { EmbeddedBackend } from './backend.ts'

/** The maximum number of open streams. */
const MAX_STREAMS = 128
const SELECT_ROWS =
  'with recursive c(i) as (select 1 union all select i + 1 from c limit 200) select i from c'

const send = (backend: EmbeddedBackend, id: DatabaseId, path: string, body: object) =>
  backend.handle(id, serviceRequest(body, { path }))
const run = (backend: EmbeddedBackend, id: DatabaseId, sql: string) =>
  send(backend, id, '/v3/pipeline', { requests: [execute(sql)] })

test('streams, cursors and dumps of deleted databases free their slots', async () => {
  const { backend } = await openBackend()
  const otherDatabase = 'other' as DatabaseId
  await backend.create(otherDatabase, { type: 'empty' }, DEFAULT_SETTINGS)
  for (let round = 0; round < 40; round += 1) {
    const id = `d${round}` as DatabaseId
    await backend.create(id, { type: 'empty' }, DEFAULT_SETTINGS)
    const requests = (): Promise<unknown>[] => [
      send(backend, id, '/v3/cursor', { baton: null, batch: { steps: [{ stmt: { sql: SELECT_ROWS } }] } }),
      send(backend, id, '/dump', {}),
      run(backend, id, SELECT_ROWS),
    ]
    const earlier = requests()
    if (round % 2 === 0) await earlier[0]
    const removal = backend.remove(id)
    await Promise.allSettled([...earlier, ...requests(), removal, ...requests()])
    for (const response of await Promise.allSettled([...earlier, ...requests()])) {
      const body = response.status === 'fulfilled' ? (response.value as ServiceResponse).body : ''
      if (body instanceof Readable) await text(body).catch(() => {})
    }
  }
  const responses = await Promise.all(
    Array.from({ length: MAX_STREAMS }, () => run(backend, otherDatabase, 'select 1')),
  )
  expect(responses.map(({ status }) => status)).toEqual(Array.from({ length: MAX_STREAMS }, () => 200))
})

test('when a database is deleted, a copy of it that a stream of another database has attached is removed', async () => {
  const { backend, directory } = await openBackend()
  const [app, secret] = ['app' as DatabaseId, 'secret' as DatabaseId]
  await backend.create(app, { type: 'empty' }, DEFAULT_SETTINGS)
  await backend.create(secret, { type: 'empty' }, { ...DEFAULT_SETTINGS, allowAttach: true })
  expect((await run(backend, app, 'attach secret as x')).status).toBe(200)
  const copies = () => readdirSync(join(directory, app, 'attached'))
  expect(copies()).not.toEqual([])
  await backend.remove(secret)
  await expect.poll(copies).toEqual([])
})
