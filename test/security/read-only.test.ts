import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close, query } from '../server/wire.ts'
import { seeded } from '../support/random.ts'
import { AttackedServer, BACKENDS, batonOf } from './attacked-server.ts'
import { generateChange, SCHEMA } from './generated-statements.ts'

const STATEMENT_COUNT = Number(
  process.env['ATTACK_STATEMENTS'] ?? (process.env['TEST_RELEASE'] === undefined ? 200 : 500),
)
const CONCURRENCY = 8
const SEED = Number(process.env['ATTACK_SEED'] ?? 20_260)

const createExecuteRequest = (sql: string) => ({ type: 'execute', stmt: { sql } })

/** Every way to send a statement. */
const ROUTES: Readonly<Record<string, (sql: string) => { path: string; body: object }>> = {
  execute: (sql) => ({ path: '/v3/pipeline', body: { requests: [createExecuteRequest(sql), close] } }),
  'execute in a transaction': (sql) => ({
    path: '/v2/pipeline',
    body: {
      requests: [
        createExecuteRequest('begin'),
        createExecuteRequest(sql),
        createExecuteRequest('commit'),
        close,
      ],
    },
  }),
  batch: (sql) => ({
    path: '/v3/pipeline',
    body: {
      requests: [
        { type: 'batch', batch: { steps: [{ stmt: { sql: 'select 1' } }, { stmt: { sql } }] } },
        close,
      ],
    },
  }),
  'skipped step': (sql) => ({
    path: '/v3/pipeline',
    body: {
      requests: [
        {
          type: 'batch',
          batch: {
            steps: [{ stmt: { sql: 'select 1' } }, { stmt: { sql }, condition: { type: 'error', step: 0 } }],
          },
        },
        close,
      ],
    },
  }),
  sequence: (sql) => ({ path: '/v3/pipeline', body: { requests: [{ type: 'sequence', sql }, close] } }),
  describe: (sql) => ({ path: '/v3/pipeline', body: { requests: [{ type: 'describe', sql }, close] } }),
  'stored text': (sql) => ({
    path: '/v3/pipeline',
    body: {
      requests: [
        { type: 'store_sql', sql_id: 1, sql },
        { type: 'execute', stmt: { sql_id: 1 } },
        { type: 'sequence', sql_id: 1 },
        { type: 'close' },
      ],
    },
  }),
  'describe of a stored text': (sql) => ({
    path: '/v3/pipeline',
    body: {
      requests: [{ type: 'store_sql', sql_id: 1, sql }, { type: 'describe', sql_id: 1 }, { type: 'close' }],
    },
  }),
  cursor: (sql) => ({ path: '/v3/cursor', body: { batch: { steps: [{ stmt: { sql } }] } } }),
}

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
    bytesBefore = await hashFiles()
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
    for (const pragma of [
      'user_version',
      'schema_version',
      'page_count',
      'freelist_count',
      'application_id',
      'encoding',
    ])
      parts.push([pragma, await sendRequest(`pragma ${pragma}`)])
    for (const [type, name] of schema) {
      if (type === 'table') parts.push([name, await sendRequest(`select * from "${String(name)}"`)])
    }
    const search = "select id from vector_top_k('vec_e', vector('[1,2]'), 5)"
    parts.push(await sendRequest(search), await sendRequest('pragma integrity_check'))
    return JSON.stringify(parts, null, 1)
  }

  /** Returns the hashes of the files of all databases, including WALs. */
  async function hashFiles(): Promise<Record<string, string>> {
    const folder = join(attacked.directory, 'data')
    const files = await readdir(folder, { recursive: true })
    const hashes: Record<string, string> = {}
    for (const file of files.filter((path) => /[\\/]data(?:\.db)?(?:-wal|\.wal)?$/.test(path))) {
      const bytes = await readFile(join(folder, file)).catch(() => null)
      if (bytes !== null) hashes[file] = createHash('sha256').update(bytes).digest('hex')
    }
    return hashes
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

  test.for(Object.keys(ROUTES))(`${STATEMENT_COUNT} statements sent by %s (seed ${SEED})`, async (name) => {
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
    expect(await hashFiles()).toEqual(bytesBefore)
  })

  test('the same statements have an effect with the owner’s token', async () => {
    const random = seeded(SEED)
    const headers = { authorization: `Bearer ${ownerToken}` }
    for (let count = 0; count < 100; count += 1) await send('execute', generateChange(random), headers)
    expect(await hashFiles()).not.toEqual(bytesBefore)
  }, 180_000)
})
