import { describe, expect, test } from 'vitest'
import { Harness, sql } from './platform-harness.ts'

/** Creates a database with a row that must not be readable while reads are blocked. */
async function createDatabase() {
  const harness = await Harness.forTest()
  const { host, id, token } = await harness.openDatabase('app', [
    'CREATE TABLE t (secret)',
    "INSERT INTO t VALUES ('secret')",
  ])
  const setBlocked = async (isBlocked: boolean): Promise<void> => {
    const body = { block_reads: isBlocked, allow_attach: true }
    await harness.configure('app', body)
  }
  return { harness, host, id, token, setBlocked }
}

describe('block_reads', () => {
  test('a blocked database cannot be copied', async () => {
    const { harness, setBlocked } = await createDatabase()
    await setBlocked(true)
    const copy = (name: string) =>
      harness.sendRequest('POST', 'databases', {
        body: { name, group: 'default', seed: { type: 'database', name: 'app' } },
      })
    expect(await copy('copy')).toEqual({ status: 403, body: { error: 'reads of database app are blocked' } })
    await setBlocked(false)
    expect((await copy('copy')).status).toBe(200)
  })

  test('no statement can be described', async () => {
    const { host, token, setBlocked } = await createDatabase()
    const describeStatement = async (requests: readonly object[]): Promise<string> => {
      const body = JSON.stringify({ requests: [...requests, { type: 'close' }] })
      const headers = { authorization: `Bearer ${token}` }
      return await (await fetch(`http://${host}/v3/pipeline`, { method: 'POST', headers, body })).text()
    }
    const pipelines = [
      [{ type: 'describe', sql: 'SELECT * FROM t' }],
      [
        { type: 'store_sql', sql_id: 1, sql: 'SELECT * FROM t' },
        { type: 'describe', sql_id: 1 },
      ],
    ]
    for (const requests of pipelines) expect(await describeStatement(requests)).toContain('"secret"')
    await setBlocked(true)
    for (const requests of pipelines) {
      const response = await describeStatement(requests)
      expect(response).toContain('"BLOCKED"')
      expect(response).not.toContain('"secret"')
    }
  })

  test('change streams are closed, and neither a new one nor a dump can be opened', async () => {
    const { host, token, setBlocked } = await createDatabase()
    const get = (path: string) =>
      fetch(`http://${host}/${path}`, { headers: { authorization: `Bearer ${token}` } })
    const listen = () => get('beta/listen?table=t')
    const stream = await listen()
    await setBlocked(true)
    // libsql-server aborts the stream, and the embedded server closes it
    const events = await stream.text().catch(() => '')
    await sql(host, token, "INSERT INTO t VALUES ('late')")
    expect(events).not.toContain('changes')
    expect((await listen()).status).toBe(403)
    expect(await (await get('dump')).text()).not.toContain('secret')
    await setBlocked(false)
    const reopened = await listen()
    expect(reopened.status).toBe(200)
    await reopened.body?.cancel()
  })

  test('a blocked database cannot be read with ATTACH', async () => {
    const { harness, id, setBlocked } = await createDatabase()
    const { host } = await harness.createDatabase('other')
    await setBlocked(false)
    const token = await harness.tokenFor('other', '', {
      permissions: { read_attach: { databases: ['app'] } },
    })
    const read = () => sql(host, token, [`ATTACH "${id}" AS x`, 'SELECT secret FROM x.t'])
    expect(await read()).toMatchObject({ status: 200, rows: [['secret']] })
    await setBlocked(true)
    expect(JSON.stringify(await read())).not.toContain('"secret"')
    await setBlocked(false)
    expect(await read()).toMatchObject({ status: 200, rows: [['secret']] })
  })
})
