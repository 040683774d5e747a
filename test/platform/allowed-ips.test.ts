import { expect, test } from 'vitest'
import { Scene, sql } from './platform-scene.ts'

const OTHER_ADDRESS = { allowed_ips: ['10.0.0.1'] }
const LOCAL_ADDRESSES = { allowed_ips: ['127.0.0.0/8', '::1'] }

async function createDatabases() {
  const scene = await Scene.forTest()
  const app = await scene.create('app')
  const other = await scene.create('other')
  await sql(other.host, await scene.tokenFor('other'), ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (7)'])
  const configure = (body: object) =>
    scene.done('PATCH', `${scene.own}/databases/other/configuration`, { body })
  return { scene, app, other, configure }
}

test('a database can be attached only by clients whose address is allowed', async () => {
  const { scene, app, configure } = await createDatabases()
  await configure({ allow_attach: true })
  const token = await scene.tokenFor('app', '', { permissions: { read_attach: { databases: ['other'] } } })
  const read = async () => (await sql(app.host, token, ['ATTACH "other" AS x', 'SELECT a FROM x.t'])).rows
  expect(await read()).toEqual([['7']])
  await configure(OTHER_ADDRESS)
  expect(await read()).toEqual([])
  await configure(LOCAL_ADDRESSES)
  expect(await read()).toEqual([['7']])
})

test('a copy has the allowed addresses of its source', async () => {
  const { scene, configure } = await createDatabases()
  await configure(OTHER_ADDRESS)
  const copy = await scene.create('copy', { seed: { type: 'database', name: 'other' } })
  const token = await scene.tokenFor('copy')
  expect((await sql(copy.host, token, 'SELECT a FROM t')).status).toBe(403)
  const { allowed_ips: allowed } = await scene.done('GET', `${scene.own}/databases/copy/configuration`)
  expect(allowed).toEqual(OTHER_ADDRESS.allowed_ips)
  await scene.done('PATCH', `${scene.own}/databases/copy/configuration`, { body: LOCAL_ADDRESSES })
  expect((await sql(copy.host, token, 'SELECT a FROM t')).rows).toEqual([['7']])
})
