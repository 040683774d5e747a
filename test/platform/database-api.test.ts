import { expect, onTestFinished, test } from 'vitest'
import { Harness, sql } from './platform-harness.ts'

// Tests the database API as the user documentation describes it, on the back end of this run.

/** Opens a change stream, and collects the text that arrives on it. */
async function listen(host: string, token: string, query: string) {
  const controller = new AbortController()
  const { status, body } = await fetch(`http://${host}/beta/listen${query}`, {
    headers: { authorization: `Bearer ${token}` },
    signal: controller.signal,
  })
  const stream = { status, text: '' }
  const reading = (async () => {
    for await (const part of body ?? []) stream.text += Buffer.from(part).toString()
  })().catch(() => {})
  onTestFinished(async () => {
    controller.abort()
    await reading
  })
  return stream
}

test('a change stream reports the requested actions, or all if none are given; the table is required', async () => {
  const harness = await Harness.forTest()
  const { host, token } = await harness.openDatabase('app', [
    'CREATE TABLE t (a)',
    'INSERT INTO t VALUES (1), (2)',
  ])
  const allActions = await listen(host, token, '?table=t')
  const deletes = await listen(host, token, '?table=t&action=delete')
  const deletesAndInserts = await listen(host, token, '?table=t&action=delete&action=insert')
  for (const statement of [
    'UPDATE t SET a = 3 WHERE a = 2',
    'INSERT INTO t VALUES (4)',
    'DELETE FROM t WHERE a > 0',
  ])
    expect((await sql(host, token, statement)).error).toBeNull()
  const bodyOf = ({ text }: { text: string }) => text.match(/\{.*\}/g)
  await expect
    .poll(() => [allActions, deletes, deletesAndInserts].map(bodyOf))
    .toEqual([
      ['{"update":1}', '{"insert":1}', '{"delete":3}'],
      ['{"delete":3}'],
      ['{"insert":1}', '{"delete":3}'],
    ])
  expect((await listen(host, token, '')).status).toBe(400)
  expect((await listen(host, token, '?table=t&action=drop')).status).toBe(400)
})

test('a schema database has no dump; its child has one', async () => {
  const harness = await Harness.forTest()
  const parent = await harness.createDatabase('parent', { is_schema: true })
  const child = await harness.createDatabase('child', { schema: 'parent' })
  await sql(parent.host, await harness.tokenFor('parent'), 'CREATE TABLE t (a)')
  const getDump = async (host: string, token: string) => {
    const response = await fetch(`http://${host}/dump`, { headers: { authorization: `Bearer ${token}` } })
    return [response.status, await response.text()]
  }
  expect(await getDump(parent.host, await harness.tokenFor('parent'))).toEqual([
    400,
    '{"error":"database is not a primary"}',
  ])
  expect(await getDump(child.host, await harness.tokenFor('child'))).toEqual([
    200,
    expect.stringContaining('CREATE TABLE t (a)'),
  ])
})

test('a float can be sent as a number or as a string', async () => {
  const harness = await Harness.forTest()
  const { host } = await harness.createDatabase('app')
  const headers = { authorization: `Bearer ${await harness.tokenFor('app')}` }
  const send = async (value: unknown) => {
    const stmt = { sql: 'SELECT typeof(?1), ?1', args: [{ type: 'float', value }] }
    const body = JSON.stringify({ requests: [{ type: 'execute', stmt }, { type: 'close' }] })
    const response = await fetch(`http://${host}/v2/pipeline`, { method: 'POST', headers, body })
    return [response.status, await response.text()]
  }
  for (const value of [1.5, '1.5', '15e-1'])
    expect(await send(value)).toEqual([200, expect.stringContaining('{"type":"float","value":1.5}')])
  for (const value of ['', '1.5x', 'Infinity', null]) expect((await send(value))[0]).toBe(400)
})
