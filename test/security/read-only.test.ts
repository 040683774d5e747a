import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close, query } from '../server/wire.ts'
import { IS_RELEASE, SEED, seeded } from '../support/random.ts'
import { words } from '../support/words.ts'
import { AttackedServer, BACKENDS, batonOf } from './attacked-server.ts'
import { generateChange, hashDatabases, ROUTES, SCHEMA } from './generated-statements.ts'

const STATEMENT_COUNT = Number(process.env['ATTACK_STATEMENTS'] ?? (IS_RELEASE ? 500 : 200))
const CONCURRENCY = 8

describe.each(BACKENDS)('a read-only token changes nothing: %s', (backend) => {
  const kind = { backend, auth: true }
  let attacked: AttackedServer
  let ownerToken: string
  let contentsBefore: string
  let bytesBefore: Readonly<Record<string, string>>

  beforeAll(async () => {
    attacked = await AttackedServer.start(kind)
    ownerToken = await attacked.server.createToken('app')
    for (const sql of SCHEMA) await query(attacked.url(), sql, { token: ownerToken })
    contentsBefore = await readContents()
    bytesBefore = await hashDatabases(join(attacked.directory, 'data'))
    expect(Object.keys(bytesBefore)).toContainEqual(expect.stringMatching(/data(?:-wal|\.db\.wal)$/))
  })
  afterAll(() => attacked[Symbol.asyncDispose]())

  /**
   * Returns everything that a statement could have changed: the schema with the root pages, every row of every table, and the
   * header fields.
   */
  async function readContents(): Promise<string> {
    const sendRequest = (sql: string): Promise<unknown[][]> =>
      query(attacked.url(), sql, { token: ownerToken })
    const schema = await sendRequest(
      'select type, name, tbl_name, rootpage, sql from sqlite_schema order by name, type',
    )
    const parts: unknown[] = [schema]
    for (const pragma of words(
      'user_version schema_version page_count freelist_count application_id encoding',
    ))
      parts.push([pragma, await sendRequest(`pragma ${pragma}`)])
    for (const [type, name] of schema) {
      if (type === 'table') parts.push([name, await sendRequest(`select * from "${String(name)}"`)])
    }
    const search = "select id from vector_top_k('vec_e', vector('[1,2]'), 5)"
    parts.push(await sendRequest(search), await sendRequest('pragma integrity_check'))
    return JSON.stringify(parts, null, 1)
  }

  async function send(name: string, sql: string, headers: Record<string, string>): Promise<number> {
    const { path, body } = (ROUTES[name] as (typeof ROUTES)[string])(sql)
    const response = await attacked.post(`/app${path}`, body, headers).catch(() => null)
    // a cursor's stream stays open, and the number of streams is limited
    if (name === 'cursor' && response?.status === 200) {
      await attacked.post('/app/v3/pipeline', { baton: batonOf(response), requests: [close] }, headers)
    }
    return response?.status ?? 0
  }

  test.for(Object.keys(ROUTES))(
    `${STATEMENT_COUNT} statements sent by %s (TEST_SEED=${SEED})`,
    async (name) => {
      const random = seeded(SEED)
      const statements = Array.from({ length: STATEMENT_COUNT }, () => generateChange(random))
      const headers = await attacked.headers('app', 'read-only')
      const worker = async (): Promise<void> => {
        for (let sql = statements.pop(); sql !== undefined; sql = statements.pop()) {
          const status = await send(name, sql, headers)
          // rejections are expected, but without a free stream, nothing would be tested
          expect([sql, status]).not.toEqual([sql, 429])
        }
      }
      await Promise.all(Array.from({ length: CONCURRENCY }, worker))
      expect(await readContents()).toBe(contentsBefore)
      expect(await hashDatabases(join(attacked.directory, 'data'))).toEqual(bytesBefore)
    },
  )

  test('the same statements have an effect with the owner’s token', async () => {
    const random = seeded(SEED)
    const headers = { authorization: `Bearer ${ownerToken}` }
    for (let count = 0; count < 100; count += 1) await send('execute', generateChange(random), headers)
    expect(await hashDatabases(join(attacked.directory, 'data'))).not.toEqual(bytesBefore)
  }, 180_000)
})
