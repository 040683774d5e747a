// Streams with an attached database, after permission to attach it was revoked.
import { describe, expect, test } from 'vitest'
import { cursor, LONG_READ } from './database-in-use.ts'
import { Harness, type SqlOutcome, sql } from './platform-harness.ts'

/** Creates a database that may be attached, a second database, and a token for the second one that may attach the first. */
async function createAttachable() {
  const harness = await Harness.forTest()
  const { id, host: secretHost } = await harness.createDatabase('secret')
  const { host } = await harness.createDatabase('app')
  const path = 'databases/secret'
  const configure = (body: object) => harness.requestOk('PATCH', `${path}/configuration`, { body })
  await configure({ allow_attach: true })
  const secretToken = await harness.tokenFor('secret')
  await sql(secretHost, secretToken, ['CREATE TABLE t (a)', "INSERT INTO t VALUES ('secret')"])
  const permissions = { read_attach: { databases: ['secret'] } }
  const token = await harness.tokenFor('app', '', { permissions })
  const run = (statements: readonly string[], baton: string | null = null): Promise<SqlOutcome> =>
    sql(host, token, statements, { baton, keepOpen: true })
  /** Opens a stream that has read the database. */
  const openStream = async (): Promise<string | null> => {
    const { rows: values, baton } = await run([attach(id), READ_ATTACHED])
    expect(values).toEqual([['secret']])
    return baton
  }
  const createLongTable = () => sql(secretHost, secretToken, `CREATE TABLE long AS ${LONG_READ}`)
  return { harness, id, path, host, token, configure, run, openStream, createLongTable }
}

type Attachable = Awaited<ReturnType<typeof createAttachable>>

const attach = (id: string): string => `ATTACH "${id}" AS x`
const READ_ATTACHED = 'SELECT a FROM x.t'

const INVALID_BATON = { status: 400, error: 'Received an invalid baton' }

describe.each<readonly [string, (database: Attachable) => Promise<unknown>]>([
  ['block_reads', ({ configure }) => configure({ block_reads: true })],
  ['allow_attach', ({ configure }) => configure({ allow_attach: false })],
  ['a deletion', ({ harness, path }) => harness.requestOk('DELETE', path)],
])('after %s', (_, change) => {
  test('a stream with the database attached cannot be continued', async () => {
    const database = await createAttachable()
    const baton = await database.openStream()
    await change(database)
    expect(await database.run([READ_ATTACHED], baton)).toMatchObject(INVALID_BATON)
    expect(await database.run(['SELECT 1'], baton)).toMatchObject(INVALID_BATON)
  })

  test('a stream with an open transaction cannot be continued, nor can one that has detached the database', async () => {
    const database = await createAttachable()
    const { baton: transaction } = await database.run([attach(database.id), 'BEGIN', READ_ATTACHED])
    const { baton: detached } = await database.run([attach(database.id), READ_ATTACHED, 'DETACH x'])
    await change(database)
    expect(await database.run([READ_ATTACHED], transaction)).toMatchObject(INVALID_BATON)
    expect(await database.run(['SELECT 1'], detached)).toMatchObject(INVALID_BATON)
  })

  test('a stream without the database can be continued', async () => {
    const database = await createAttachable()
    const { baton } = await database.run(['SELECT 1'])
    await database.openStream()
    await change(database)
    expect(await database.run(['SELECT 2'], baton)).toMatchObject({ status: 200, rows: [['2']] })
  })

  test('a cursor that reads the database is aborted', async () => {
    const database = await createAttachable()
    await database.createLongTable()
    const reader = cursor(database, attach(database.id), 'SELECT * FROM x.long')
    await reader.started
    await change(database)
    expect(await reader.outcome()).toMatchObject({ isComplete: false })
  })
})

test.each<readonly [string, (database: Attachable) => Promise<unknown>]>([
  ["the client's address is no longer allowed", ({ configure }) => configure({ allowed_ips: ['10.0.0.1'] })],
  [
    'the database has moved to another group',
    async ({ harness, path }) => {
      await harness.createGroup('far')
      const body = { org: harness.platform.organization, group: 'far' }
      await harness.requestOk('POST', `${path}/transfer`, { body })
    },
  ],
])('the stream cannot be continued when %s', async (_, change) => {
  const database = await createAttachable()
  const baton = await database.openStream()
  await change(database)
  expect(await database.run([READ_ATTACHED], baton)).toMatchObject(INVALID_BATON)
})

test('a change that still allows attaching the database does not end a stream', async () => {
  const { openStream, configure, run } = await createAttachable()
  const baton = await openStream()
  await configure({ block_writes: true })
  expect(await run([READ_ATTACHED], baton)).toMatchObject({ status: 200, rows: [['secret']] })
})

test('a token that may not attach the database cannot continue the stream', async () => {
  const { harness, openStream, host } = await createAttachable()
  const baton = await openStream()
  const otherToken = await harness.tokenFor('app')
  expect(await sql(host, otherToken, READ_ATTACHED, { baton })).toMatchObject(INVALID_BATON)
})
