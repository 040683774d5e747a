import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close, execute } from '../server/wire.ts'
import { AttackedServer, batonOf, KINDS } from './attacked-server.ts'

const INSERT_REQUEST = execute('insert into t values (666)')

/** Creates bodies that continue a stream with its baton, in every form that a JSON parser might accept. */
function createBodies(baton: string): Readonly<Record<string, string>> {
  const quoted = JSON.stringify(baton)
  const escaped = `"${baton.replace(/./g, (letter) => `\\u00${letter.charCodeAt(0).toString(16)}`)}"`
  const requests = JSON.stringify([INSERT_REQUEST])
  return {
    object: `{"baton":${quoted},"requests":${requests}}`,
    'baton last': `{"requests":${requests},"baton":${quoted}}`,
    'escaped key': `{"\\u0062aton":${quoted},"requests":${requests}}`,
    'escaped value': `{"baton":${escaped},"requests":${requests}}`,
    'duplicate key, first': `{"baton":${quoted},"baton":null,"requests":${requests}}`,
    'duplicate key, last': `{"baton":null,"baton":${quoted},"requests":${requests}}`,
    array: `[${quoted},${requests}]`,
    'nested array': `{"baton":${quoted},"requests":[["execute",["insert into t values (666)"]]]}`,
    'baton in an array': `{"baton":[${quoted}],"requests":${requests}}`,
    'byte order mark': `\ufeff{"baton":${quoted},"requests":${requests}}`,
    padded: `{"baton":"${baton}=","requests":${requests}}`,
    'with a line feed': `{"baton":"${baton}\\n","requests":${requests}}`,
    'other alphabet': `{"baton":"${baton.replaceAll('+', '-').replaceAll('/', '_')}=","requests":${requests}}`,
    truncated: `{"baton":"${baton.slice(0, 63)}","requests":${requests}}`,
    'cursor object': `{"baton":${quoted},"batch":{"steps":[{"stmt":${JSON.stringify(INSERT_REQUEST['stmt'])}}]}}`,
    'cursor array': `[${quoted},[[[[${JSON.stringify('insert into t values (666)')}]]]]]`,
  }
}

describe.each(KINDS)('a baton is valid only for its own database: $backend, auth $auth', (kind) => {
  let attacked: AttackedServer
  let appHeaders: Record<string, string>
  let otherHeaders: Record<string, string>

  beforeAll(async () => {
    attacked = await AttackedServer.start(kind)
    appHeaders = await attacked.headers('app')
    otherHeaders = await attacked.headers('other')
    for (const [name, headers] of [['app', appHeaders] as const, ['other', otherHeaders] as const]) {
      await attacked.post(
        `/${name}/v3/pipeline`,
        { requests: [execute('create table t(a)'), close] },
        headers,
      )
    }
  })
  afterAll(() => attacked[Symbol.asyncDispose]())

  const forms = Object.keys(createBodies('x'.repeat(64)))

  async function openStream(): Promise<string> {
    const requests = [execute('begin immediate'), execute('insert into t values (1)')]
    return batonOf(await attacked.post('/app/v3/pipeline', { requests }, appHeaders))
  }

  test.each(forms)('%s', async (form) => {
    const baton = await openStream()
    const body = createBodies(baton)[form] as string
    const path = form.startsWith('cursor') ? '/other/v3/cursor' : '/other/v3/pipeline'
    const responses = [
      attacked.post(path, body, otherHeaders),
      attacked.post(path.slice('/other'.length), body, { ...otherHeaders, 'x-namespace': 'other' }),
    ]
    for (const response of await Promise.all(responses)) {
      // some forms no longer contain a baton, and are executed on the database to which they were sent
      if (!form.startsWith('duplicate key, first')) expect([form, response.status]).toEqual([form, 400])
    }
    const requests = [execute('select a from t where a = 666'), execute('rollback'), close]
    const { status, text } = await attacked.post('/app/v3/pipeline', { baton, requests }, appHeaders)
    expect([status, text.includes('"value":"666"')]).toEqual([200, false])
  })

  test('a baton in which any character is changed is invalid', async () => {
    const baton = await openStream()
    for (const index of [0, 5, 10, 11, 20, 21, 40, 63]) {
      const forged = baton.slice(0, index) + (baton[index] === 'A' ? 'E' : 'A') + baton.slice(index + 1)
      const response = await attacked.post('/app/v3/pipeline', { baton: forged, requests: [] }, appHeaders)
      expect([index, response.status]).toEqual([index, 400])
    }
    const response = await attacked.post(
      '/app/v3/pipeline',
      { baton, requests: [execute('rollback'), close] },
      appHeaders,
    )
    expect(response.status).toBe(200)
  })

  test('removing a database closes its streams', async () => {
    await attacked.server.createDatabase('short')
    const headers = await attacked.headers('short')
    const baton = batonOf(
      await attacked.post('/short/v3/pipeline', { requests: [execute('begin')] }, headers),
    )
    await attacked.server.deleteDatabase('short')
    const body = { baton, requests: [execute('select 1')] }
    expect((await attacked.post('/short/v3/pipeline', body, headers)).status).toBe(404)
    expect((await attacked.post('/other/v3/pipeline', body, otherHeaders)).status).toBe(400)
  })
})

describe.each(KINDS.filter(({ auth }) => auth))(
  'a baton requires the permissions of its stream: $backend',
  (kind) => {
    test('is rejected without a token, and with a read-only token', async () => {
      await using attacked = await AttackedServer.start(kind)
      const headers = await attacked.headers()
      const reader = await attacked.headers('app', 'read-only')
      const storeSql = { requests: [{ type: 'store_sql', sql_id: 1, sql: 'create table made(a)' }] }
      const baton = batonOf(await attacked.post('/app/v3/pipeline', storeSql, headers))
      const runStoredSql = { baton, requests: [{ type: 'execute', stmt: { sql_id: 1 } }, close] }
      expect((await attacked.post('/app/v3/pipeline', runStoredSql)).status).toBe(401)
      expect([400, 403]).toContain((await attacked.post('/app/v3/pipeline', runStoredSql, reader)).status)
      const check = { requests: [execute('select count(*) from sqlite_schema'), close] }
      expect((await attacked.post('/app/v3/pipeline', check, headers)).text).toContain('"value":"0"')
    })
  },
)
