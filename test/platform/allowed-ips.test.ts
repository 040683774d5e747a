import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { Harness, sql } from './platform-harness.ts'

const OTHER_ADDRESS = { allowed_ips: ['10.0.0.1'] }
const LOCAL_ADDRESSES = { allowed_ips: ['127.0.0.0/8', '::1'] }

async function createDatabases() {
  const harness = await Harness.forTest()
  const app = await harness.createDatabase('app')
  const other = await harness.createDatabase('other')
  await sql(other.host, await harness.tokenFor('other'), ['CREATE TABLE t (a)', 'INSERT INTO t VALUES (7)'])
  const configure = (body: object) => harness.configure('other', body)
  return { harness, app, other, configure }
}

test('a database can be attached only by clients whose address is allowed', async () => {
  const { harness, app, configure } = await createDatabases()
  await configure({ allow_attach: true })
  const token = await harness.tokenFor('app', '', { permissions: { read_attach: { databases: ['other'] } } })
  const read = async () => (await sql(app.host, token, ['ATTACH "other" AS x', 'SELECT a FROM x.t'])).rows
  expect(await read()).toEqual([['7']])
  await configure(OTHER_ADDRESS)
  expect(await read()).toEqual([])
  await configure(LOCAL_ADDRESSES)
  expect(await read()).toEqual([['7']])
})

test('a copy has the allowed addresses of its source', async () => {
  const { harness, configure } = await createDatabases()
  await configure(OTHER_ADDRESS)
  const copy = await harness.createDatabase('copy', { seed: { type: 'database', name: 'other' } })
  const token = await harness.tokenFor('copy')
  expect((await sql(copy.host, token, 'SELECT a FROM t')).status).toBe(403)
  const { allowed_ips: allowed } = await harness.requestOk('GET', 'databases/copy/configuration')
  expect(allowed).toEqual(OTHER_ADDRESS.allowed_ips)
  await harness.configure('copy', { allowed_ips: ['127.0.0.1/32', '::1/128'] })
  expect((await sql(copy.host, token, 'SELECT a FROM t')).rows).toEqual([['7']])
})

test('a request whose connection was reset does not count as one of an allowed address', async () => {
  const { harness, other, configure } = await createDatabases()
  const token = await harness.tokenFor('other')
  await configure(OTHER_ADDRESS)
  const { host, port, pathname } = new URL(`http://${other.host}/v2/pipeline`)
  const body = JSON.stringify({
    requests: [{ type: 'execute', stmt: { sql: 'INSERT INTO t VALUES (8)' } }, { type: 'close' }],
  })
  const head = [
    `POST ${pathname} HTTP/1.1`,
    `host: ${host}`,
    `authorization: Bearer ${token}`,
    `content-length: ${body.length}`,
  ]
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const socket = connect(Number(port), '127.0.0.1')
    await once(socket, 'connect')
    socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
    socket.resetAndDestroy()
    await once(socket, 'close')
  }
  await configure(LOCAL_ADDRESSES)
  expect((await sql(other.host, token, 'SELECT a FROM t')).rows).toEqual([['7']])
})
