import { type DatabaseId, type DatabaseSource, DEFAULT_SETTINGS } from '@batonsql/server-common/backend'
import { toResponse } from '@batonsql/server-common/http'
import { expect, test, vi } from 'vitest'
import { serviceRequest } from '../../../../test/server/service-request.ts'
import { close, execute } from '../../../../test/server/wire.ts'
import { openBackend } from '../../test-support/open-backend.ts'
import type { EmbeddedBackend } from './backend.ts'
import { SchemaStore } from './schema/schema-store.ts'

/** Each database needs its own thread, which takes a while to start. */
const CHILDREN = Number(process.env['SCHEMA_CHILDREN'] ?? 12)
const PARENT = 'parent' as DatabaseId
const CHILD: DatabaseSource = { type: 'schema-child', parent: PARENT }

interface TestResponse {
  readonly status: number
  readonly body: string
}

async function send(
  backend: EmbeddedBackend,
  id: string,
  path: string,
  requests?: readonly object[] | string,
): Promise<TestResponse> {
  const body = Array.isArray(requests) ? { requests: [...requests, close] } : (requests ?? '')
  const request = serviceRequest(body, { method: requests === undefined ? 'GET' : 'POST', path })
  const response = await backend.handle(id as DatabaseId, request)
  return { status: response.status, body: await toResponse(response).text() }
}

const batch = (...steps: readonly string[]): object => ({
  type: 'batch',
  batch: { steps: steps.map((sql) => ({ stmt: { sql } })) },
})

/** Returns the error of a request, or the rows of its result. */
async function run(backend: EmbeddedBackend, id: string, request: object): Promise<unknown> {
  const { status, body } = await send(backend, id, '/v3/pipeline', [request])
  if (status !== 200) return { status, body }
  const [result] = (
    JSON.parse(body) as {
      results: { error?: unknown; response: { result?: { rows?: { value: unknown }[][] } } }[]
    }
  ).results
  return result?.error ?? result?.response.result?.rows?.map((row) => row.map(({ value }) => value)) ?? 'ok'
}

async function readJob(backend: EmbeddedBackend, number?: number): Promise<unknown> {
  const { body } = await send(backend, PARENT, number === undefined ? '/v1/jobs' : `/v1/jobs/${number}`)
  return JSON.parse(body)
}

async function createFamily(
  children: readonly string[],
): Promise<{ backend: EmbeddedBackend; directory: string }> {
  const family = await openBackend({ isDurable: true })
  await family.backend.create(PARENT, { type: 'schema' }, DEFAULT_SETTINGS)
  for (const child of children) await family.backend.create(child as DatabaseId, CHILD, DEFAULT_SETTINGS)
  return family
}

test('a change to a schema database is applied to its children', async () => {
  const { backend } = await createFamily(['kid', 'kid2'])
  expect(await readJob(backend)).toEqual({ schema_version: 4, migrations: [] })
  expect(await run(backend, PARENT, execute('CREATE TABLE t(a)'))).toEqual([])
  expect(await readJob(backend, 1)).toEqual({
    job_id: 1,
    status: 'RunSuccess',
    error: null,
    progress: [
      { namespace: 'kid', status: 'RunSuccess', error: null },
      { namespace: 'kid2', status: 'RunSuccess', error: null },
    ],
  })
  expect(await run(backend, 'kid', execute('SELECT name FROM sqlite_schema'))).toEqual([
    ['sqlite3_libsql_tasks'],
    ['t'],
  ])
  expect(await run(backend, PARENT, batch('BEGIN', 'ALTER TABLE t ADD COLUMN b', 'COMMIT'))).toBe('ok')
  const script = { type: 'sequence', sql: 'CREATE TABLE u(a); CREATE INDEX ui ON u(a)' }
  expect(await run(backend, PARENT, script)).toBe('ok')
  expect(
    await run(backend, PARENT, execute("INSERT INTO t VALUES(1, x'0102'), (9007199254740993, 1.5)")),
  ).toEqual([])
  expect(await run(backend, 'kid2', execute('SELECT a, hex(b) FROM t'))).toEqual([
    ['1', '0102'],
    ['9007199254740993', '312E35'],
  ])
  expect(await run(backend, PARENT, execute('SELECT count(*) FROM t'))).toEqual([['2']])
  expect(await readJob(backend)).toMatchObject({
    migrations: [4, 3, 2, 1].map((number) => ({ job_id: number, status: 'RunSuccess' })),
  })
  // a child that is created later starts with its parent's schema
  await backend.create('late' as DatabaseId, CHILD, DEFAULT_SETTINGS)
  expect(await run(backend, 'late', execute('SELECT count(*) FROM t'))).toEqual([['2']])
})

test('children created or removed during a migration do not miss a change, and do not stop the migration', async () => {
  const { backend } = await createFamily(['kid'])
  const remaining = ['kid']
  const migrations = async (): Promise<void> => {
    for (let index = 0; index < 8; index += 1)
      expect(await run(backend, PARENT, execute(`CREATE TABLE t${index}(a)`))).toEqual([])
  }
  const changes = async (worker: string): Promise<void> => {
    for (let index = 0; index < 8; index += 1) {
      const child = `${worker}-${index}`
      await backend.create(child as DatabaseId, CHILD, DEFAULT_SETTINGS)
      if (index % 2 === 0) remaining.push(child)
      else await backend.remove(child as DatabaseId)
    }
  }
  await Promise.all([migrations(), changes('one'), changes('two')])
  for (const child of remaining)
    expect(
      await run(backend, child, execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 't_'")),
      child,
    ).toEqual([['8']])
})

test('arguments of every type reach the children', async () => {
  const { backend } = await createFamily(['kid'])
  await run(backend, PARENT, execute('CREATE TABLE t(a)'))
  const values = [
    { type: 'null' },
    { type: 'integer', value: '9223372036854775807' },
    { type: 'float', value: 0.1 },
    { type: 'text', value: "o'clock \u0000 🙂" },
    { type: 'blob', base64: '' },
  ]
  const stmt = { sql: 'INSERT INTO t VALUES (?),(?),(?),(?),(?)', args: values }
  expect(await run(backend, PARENT, { type: 'execute', stmt })).toEqual([])
  const named = { sql: 'INSERT INTO t VALUES (:a)', named_args: [{ name: 'a', value: values[1] }] }
  expect(await run(backend, PARENT, { type: 'execute', stmt: named })).toEqual([])
  const { body } = await send(backend, 'kid', '/v3/pipeline', [execute('SELECT a FROM t')])
  const { results } = JSON.parse(body) as { results: { response: { result: { rows: unknown[][] } } }[] }
  expect(results[0]?.response.result.rows.flat()).toEqual([...values, values[1]])
})

test('if a change fails in one child, no child is changed', async () => {
  const children = Array.from({ length: CHILDREN }, (_, index) => `kid-${index}`)
  const { backend } = await createFamily(children)
  await run(backend, PARENT, execute('CREATE TABLE t(a)'))
  await run(backend, 'kid-7', execute('INSERT INTO t VALUES (1), (1)'))
  const reason = `task ${CHILDREN + 8} for namespace \`kid-7\` failed with error: An error occured executing the migration at step 1: UNIQUE constraint failed: t.a`
  expect(await run(backend, PARENT, execute('CREATE UNIQUE INDEX ti ON t(a)'))).toEqual({
    message: `SQLite error: migration dry run failed: ${reason}`,
    code: 'SQLITE_UNKNOWN',
  })
  expect(await readJob(backend, 2)).toMatchObject({
    status: 'RunFailure',
    error: reason,
    progress: children.map((namespace) => ({ namespace, status: 'RunFailure', error: 'aborted' })),
  })
  for (const child of [PARENT, 'kid-0', 'kid-7', `kid-${CHILDREN - 1}`])
    expect(
      await run(backend, child, execute("SELECT count(*) FROM sqlite_schema WHERE name = 'ti'")),
    ).toEqual([['0']])
  // no database is still blocked
  expect(await run(backend, 'kid-7', execute('DELETE FROM t'))).toEqual([])
  expect(await run(backend, PARENT, execute('CREATE UNIQUE INDEX ti ON t(a)'))).toEqual([])
  for (const child of children)
    expect(
      await run(backend, child, execute("SELECT count(*) FROM sqlite_schema WHERE name = 'ti'")),
    ).toEqual([['1']])
})

test('a statement that fails in the schema database itself creates no job', async () => {
  const { backend } = await createFamily(['kid'])
  await run(backend, PARENT, execute('CREATE TABLE t(a)'))
  const failure =
    'An error occured executing the migration at step 1: table t already exists in CREATE TABLE t(a) at offset 13'
  expect(await run(backend, PARENT, execute('CREATE TABLE t(a)'))).toEqual({
    message: `SQLite error: ${failure}`,
    code: 'SQLITE_UNKNOWN',
  })
  expect(await run(backend, PARENT, batch('CREATE TABLE t(a)'))).toEqual({
    message: `Schema migration error: ${failure}`,
    code: 'SCHEMA_MIGRATION_ERROR',
  })
  expect(await run(backend, PARENT, batch('CREATE TABLE u(a)', 'BEGIN', 'COMMIT'))).toMatchObject({
    code: 'SCHEMA_MIGRATION_ERROR',
    message: expect.stringContaining('transaction items'),
  })
  expect(await readJob(backend)).toMatchObject({ migrations: [{ job_id: 1 }] })
})

test('a transaction cannot be opened on a schema database', async () => {
  const { backend } = await createFamily(['kid'])
  const { body } = await send(backend, PARENT, '/v3/pipeline', [
    execute('BEGIN'),
    execute('CREATE TABLE z(a)'),
    execute('COMMIT'),
  ])
  const { results } = JSON.parse(body) as { results: { type: string; error?: { message: string } }[] }
  expect(results.map(({ type, error }) => error?.message ?? type)).toEqual([
    'SQLite error: Connection left in transaction state',
    'SQLite error: Interactive transactions are not allowed against a schema',
    'ok',
    'ok',
  ])
})

test('a cursor reads a schema database, and cannot change it', async () => {
  const { backend } = await createFamily(['kid'])
  await run(backend, PARENT, execute('CREATE TABLE t(a)'))
  const cursor = async (sql: string): Promise<TestResponse> => {
    const body = JSON.stringify({ batch: { steps: [{ stmt: { sql } }] } })
    return await send(backend, PARENT, '/v3/cursor', body)
  }
  for (const sql of ['CREATE TABLE z(a)', 'INSERT INTO t VALUES (1)', 'BEGIN'])
    expect(await cursor(sql)).toMatchObject({ status: 400, body: expect.stringContaining('cannot change') })
  expect((await cursor('SELECT count(*) FROM t')).body).toContain('"value":"0"')
  expect(await readJob(backend)).toMatchObject({ migrations: [{ job_id: 1 }] })
})

test('a blocked schema database is not changed', async () => {
  const { backend } = await createFamily(['kid'])
  await backend.applySettings(PARENT, { ...DEFAULT_SETTINGS, blockWrites: true, blockReason: 'unpaid' })
  expect(await run(backend, PARENT, execute('CREATE TABLE t(a)'))).toEqual({
    message: 'Operation was blocked: unpaid',
    code: 'BLOCKED',
  })
})

test('a child can be removed while its schema database is being migrated', async () => {
  const { backend } = await createFamily(['kid', 'kid2'])
  const migration = run(backend, PARENT, execute('CREATE TABLE t(a)'))
  await backend.remove('kid' as DatabaseId)
  expect(await migration).toEqual([])
  expect(await run(backend, 'kid2', execute('SELECT count(*) FROM t'))).toEqual([['0']])
})

test('the other routes of a schema database respond like libsql-server', async () => {
  const { backend } = await createFamily(['kid'])
  await backend.create('plain' as DatabaseId, { type: 'empty' }, DEFAULT_SETTINGS)
  expect(await send(backend, PARENT, '/dump')).toEqual({
    status: 400,
    body: '{"error":"database is not a primary"}',
  })
  expect(await send(backend, 'plain', '/v1/jobs')).toEqual({
    status: 400,
    body: '{"error":"Invalid namespace"}',
  })
  expect(await send(backend, 'kid', '/v1/jobs')).toMatchObject({ status: 400 })
  expect(await send(backend, PARENT, '/v1/jobs/77')).toEqual({
    status: 404,
    body: '{"error":"couldn\'t find requested migration job"}',
  })
  for (const text of ['-1', '18446744073709551616'])
    expect(await send(backend, PARENT, `/v1/jobs/${text}`)).toEqual({
      status: 400,
      body: `Invalid URL: Cannot parse \`"${text}"\` to a \`u64\``,
    })
  await run(backend, PARENT, execute('CREATE TABLE t(a)'))
  expect(await send(backend, PARENT, '/v1/jobs/01')).toEqual(await send(backend, PARENT, '/v1/jobs/1'))
})

test('a schema database and its children cannot be separated', async () => {
  const { backend } = await createFamily(['kid'])
  await expect(backend.remove(PARENT)).rejects.toThrow('databases are still refering to it')
  const childSource = { type: 'schema-child', parent: 'kid' as DatabaseId } as const
  await expect(backend.create('kid2' as DatabaseId, childSource, DEFAULT_SETTINGS)).rejects.toThrow(
    'is not a schema database',
  )
  const migration = run(backend, PARENT, execute('CREATE TABLE t(a)'))
  await expect.poll(async () => (await send(backend, PARENT, '/v1/jobs')).body).toContain('"job_id":1')
  await migration
  await backend.remove('kid' as DatabaseId)
  await backend.remove(PARENT)
})

test('roles and jobs survive a restart', async () => {
  const { backend, directory } = await createFamily(['kid'])
  await run(backend, PARENT, execute('CREATE TABLE t(a)'))
  await backend[Symbol.asyncDispose]()
  const { backend: reopened } = await openBackend({ directory, isDurable: true })
  for (const id of [PARENT, 'kid']) await reopened.applySettings(id as DatabaseId, DEFAULT_SETTINGS)
  reopened.resume()
  expect(await readJob(reopened)).toMatchObject({ migrations: [{ job_id: 1, status: 'RunSuccess' }] })
  expect(await run(reopened, PARENT, execute('CREATE TABLE u(a)'))).toEqual([])
  expect(await run(reopened, 'kid', execute('SELECT count(*) FROM u'))).toEqual([['0']])
})

test('a child is created from a schema database whose interrupted migration has been finished', async () => {
  const { backend } = await openBackend({ isDurable: true })
  await backend.create(PARENT, { type: 'schema' }, DEFAULT_SETTINGS)
  const save = SchemaStore.prototype.save
  let saves = 0
  vi.spyOn(SchemaStore.prototype, 'save').mockImplementation(function (this: SchemaStore) {
    saves += 1
    return saves === 2 ? Promise.reject(new Error('the disk is full')) : save.call(this)
  })
  const { body } = await send(backend, PARENT, '/v2/pipeline', [execute('create table t (a)')])
  expect(body).toContain('the disk is full')
  await backend.create('kid' as DatabaseId, CHILD, DEFAULT_SETTINGS)
  expect((await send(backend, 'kid', '/v2/pipeline', [execute('select * from t')])).body).toContain(
    '"rows":[]',
  )
})
