// The effect of `block_writes` on open transactions, and on migrations of a shared schema.
import { expect, test } from 'vitest'
import { Scene, sql } from './platform-scene.ts'

const configure = (scene: Scene, name: string, body: object): Promise<unknown> =>
  scene.done('PATCH', `${scene.own}/databases/${name}/configuration`, { body })

const blockWrites = (scene: Scene, name: string): Promise<unknown> =>
  configure(scene, name, { block_writes: true })

test('an open transaction is rolled back, and cannot be committed', async () => {
  const scene = await Scene.forTest()
  const { host } = await scene.create('app')
  const token = await scene.tokenFor('app')
  await sql(host, token, 'CREATE TABLE t (a)')
  const { baton } = await sql(host, token, ['BEGIN', 'INSERT INTO t VALUES (1)'], { keep: true })
  await blockWrites(scene, 'app')
  expect(await sql(host, token, 'COMMIT', { baton })).toMatchObject({
    status: 400,
    error: 'Received an invalid baton',
  })
  expect(await sql(host, token, 'SELECT count(*) FROM t')).toMatchObject({ error: null, rows: [['0']] })
})

test('a read transaction of a read-only token continues', async () => {
  const scene = await Scene.forTest()
  const { host } = await scene.create('app')
  await sql(host, await scene.tokenFor('app'), 'CREATE TABLE t (a)')
  const reader = await scene.tokenFor('app', '?authorization=read-only')
  const { baton } = await sql(host, reader, ['BEGIN', 'SELECT count(*) FROM t'], { keep: true })
  await blockWrites(scene, 'app')
  const { baton: nextBaton, rows } = await sql(host, reader, 'SELECT count(*) FROM t', { baton, keep: true })
  expect(rows).toEqual([['0']])
  expect(await sql(host, reader, 'COMMIT', { baton: nextBaton })).toMatchObject({ status: 200, error: null })
})

async function createSharedSchema() {
  const scene = await Scene.forTest()
  const parent = await scene.create('parent', { is_schema: true })
  const child = await scene.create('child', { schema: 'parent' })
  const token = await scene.tokenFor('parent')
  const childToken = await scene.tokenFor('child')
  return {
    scene,
    changeSchema: (text: string) => sql(parent.host, token, text),
    /** Sends requests of a pipeline to the schema database. @returns the response as text */
    send: async (requests: readonly object[]) => {
      const body = JSON.stringify({ requests: [...requests, { type: 'close' }] })
      const headers = { authorization: `Bearer ${token}` }
      return await (
        await fetch(`http://${parent.host}/v3/pipeline`, { method: 'POST', headers, body })
      ).text()
    },
    queryChild: (text: string) => sql(child.host, childToken, text),
  }
}

test('a migration of a shared schema changes a child whose writes are blocked', async () => {
  const { scene, changeSchema, queryChild } = await createSharedSchema()
  await blockWrites(scene, 'child')
  expect(await changeSchema('CREATE TABLE t (a)')).toMatchObject({ error: null })
  expect(await queryChild('SELECT count(*) FROM t')).toMatchObject({ error: null, rows: [['0']] })
  // the migration has not removed the block
  expect(await queryChild('INSERT INTO t VALUES (1)')).toMatchObject({ error: 'BLOCKED' })
})

test.each(['block_writes', 'block_reads'])(
  '%s of a schema database stops its migrations',
  async (setting) => {
    const { scene, changeSchema, send, queryChild } = await createSharedSchema()
    await changeSchema('CREATE TABLE t (a)')
    await configure(scene, 'parent', { [setting]: true })
    const stmt = { sql: 'CREATE TABLE u (a)' }
    const requests = [
      [{ type: 'execute', stmt }],
      [{ type: 'batch', batch: { steps: [{ stmt: { sql: 'BEGIN' } }, { stmt }] } }],
      [{ type: 'sequence', sql: 'SELECT 1; CREATE TABLE u (a); INSERT INTO t VALUES (1)' }],
      [
        { type: 'store_sql', sql_id: 1, sql: stmt.sql },
        { type: 'execute', stmt: { sql_id: 1 } },
      ],
    ]
    for (const pipeline of requests) expect(await send(pipeline)).toContain('Operation was blocked')
    expect((await queryChild("SELECT name FROM sqlite_schema WHERE name = 'u'")).rows).toEqual([])
    expect((await queryChild('SELECT count(*) FROM t')).rows).toEqual([['0']])
    expect((await queryChild('INSERT INTO t VALUES (1)')).error).toBeNull()
    const isReadable = setting === 'block_writes'
    expect((await changeSchema('SELECT count(*) FROM t')).error).toBe(isReadable ? null : 'BLOCKED')
    await configure(scene, 'parent', { [setting]: false })
    expect((await changeSchema(stmt.sql)).error).toBeNull()
    expect((await queryChild('SELECT count(*) FROM u')).rows).toEqual([['0']])
  },
)
