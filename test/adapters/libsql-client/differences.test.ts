import { setTimeout as pause } from 'node:timers/promises'
import { baton, createClient, LibsqlBatchError } from '@batonsql/libsql-client'
import { Sqlite3Client } from '@batonsql/libsql-client/sqlite3'
import {
  type Client,
  createClient as createOriginal,
  type LibsqlError,
  type Transaction,
} from '@libsql/client'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { settlesBefore } from '../../support/fixtures.ts'
import { openTestServer } from '../../support/test-server.ts'

// The differences from the original that the package's README lists, tested on both.
const server = await openTestServer()
const database = await server.createDatabase()
const config = { url: database.url, ...(database.authToken && { authToken: database.authToken }) }
const original = createOriginal(config)
const ours = createClient(config)
afterAll(() => {
  original.close()
  ours.close()
})
beforeAll(async () => {
  await ours.executeMultiple('drop table if exists t; create table t (a unique)')
})

const codeOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'done',
    (error: LibsqlError) => error.code,
  )

test.each(['begin', 'commit', 'rollback', 'savepoint a'])('%s on the client is rejected', async (sql) => {
  expect(await codeOf(ours.execute(sql))).toBe('TRANSACTION_CONTROL')
})

test.each([undefined, null, 5, {}])('%o is neither a statement nor a list of them', async (value) => {
  const tx = await ours.transaction('write')
  for (const executor of [ours, tx]) {
    await expect(executor.execute(value as never)).rejects.toThrow(
      /^expected SQL as a string or { sql, args }/,
    )
    await expect(executor.batch(value as never)).rejects.toThrow('expected an array of statements')
    await expect(executor.executeMultiple(value as never)).rejects.toThrow('expected SQL as a string')
  }
  await expect(ours.migrate(value as never)).rejects.toThrow('expected an array of statements')
  expect(tx.closed).toBe(false)
  await tx.rollback()
  expect(() => baton(value as never)).toThrow('not an HTTP client of @batonsql/libsql-client')
})

test('COMMIT as a statement ends the transaction', async () => {
  const tx = await ours.transaction('write')
  await tx.execute("insert into t values ('by a statement')")
  await tx.execute('COMMIT')
  expect(tx.closed).toBe(true)
  expect(await codeOf(tx.execute("insert into t values ('torn')"))).toBe('TRANSACTION_CLOSED')
  expect(await codeOf(tx.commit())).toBe('TRANSACTION_CLOSED')
  await tx.rollback()
  expect((await ours.execute('select count(*) as n from t')).rows[0]?.['n']).toBe(1)
  await ours.execute('delete from t')
})

test('a rejected script sends nothing: BEGIN is sent with the next call, whose parse error closes the transaction', async () => {
  const tx = await ours.transaction('write')
  expect(await codeOf(tx.executeMultiple('commit'))).toBe('TRANSACTION_CONTROL')
  expect(tx.closed).toBe(false)
  expect(await codeOf(tx.execute('selec 1'))).toBe('SQL_PARSE_ERROR')
  expect(tx.closed).toBe(true)
})

test.each(['commit', 'rollback'] as const)('%s resolves when its response has arrived', async (method) => {
  let responses = 0
  const countingFetch: typeof fetch = async (...args) => {
    const response = await fetch(...args)
    responses += 1
    return response
  }
  const client = createClient({ ...config, fetch: countingFetch })
  const tx = await client.transaction('write')
  await tx.execute("delete from t where a = 'not there'")
  const before = responses
  const end = tx[method]()
  // in the same tick
  expect(tx.closed).toBe(true)
  await end
  expect(responses - before).toBe(1)
  client.close()
})

test('PRAGMA foreign_keys in a transaction or a batch is rejected, and migrate() keeps the rows that refer to a rebuilt table', async () => {
  const rebuild = [
    'pragma foreign_keys = off',
    'create table p2 (id integer primary key)',
    'insert into p2 select id from p',
    'drop table p',
    'alter table p2 rename to p',
  ]
  const inTransaction = async (client: Client): Promise<void> => {
    const tx = await client.transaction('write')
    for (const statement of rebuild) await tx.execute(statement)
    await tx.commit()
  }
  const countAfter = async (call: () => Promise<unknown>): Promise<unknown> => {
    await ours.executeMultiple(`drop table if exists c; drop table if exists p; create table p (id integer primary key);
      create table c (p integer references p on delete cascade); insert into p values (1); insert into c values (1)`)
    return [await codeOf(call()), (await ours.execute('select count(*) as n from c')).rows[0]?.['n']]
  }
  expect(await countAfter(() => inTransaction(original))).toEqual(['done', 0])
  expect(await countAfter(() => original.batch(rebuild, 'write'))).toEqual(['done', 0])
  expect(await countAfter(() => inTransaction(ours))).toEqual(['TRANSACTION_CONTROL', 1])
  expect(await countAfter(() => ours.batch(rebuild, 'write'))).toEqual(['TRANSACTION_CONTROL', 1])
  const tx = await ours.transaction('write')
  expect(await codeOf(tx.batch(rebuild))).toBe('TRANSACTION_CONTROL')
  expect(await codeOf(tx.executeMultiple(rebuild.join(';')))).toBe('TRANSACTION_CONTROL')
  tx.close()
  for (const client of [original, ours])
    expect(await countAfter(() => client.migrate(rebuild))).toEqual(['done', 1])
})

test.each([
  ['BEGIN in a transaction', async (tx: Transaction) => tx.execute('begin')],
  ['COMMIT in a batch of the transaction', async (tx: Transaction) => tx.batch(['commit'])],
  [
    'COMMIT in a script of the transaction',
    async (tx: Transaction) => tx.executeMultiple('select 1; commit'),
  ],
  ['COMMIT in a batch', async () => ours.batch(['select 1', 'commit'])],
])('%s is rejected', async (_, call) => {
  const tx = await ours.transaction('write')
  await tx.execute("insert into t values ('undone')")
  expect(await codeOf(call(tx))).toBe('TRANSACTION_CONTROL')
  await tx.rollback()
  expect((await ours.execute('select count(*) as n from t')).rows[0]?.['n']).toBe(0)
})

test('a script that leaves a transaction open is rejected, and its transaction does not run', async () => {
  const script = "insert into t values ('before'); begin; insert into t values ('inside')"
  expect(await codeOf(original.executeMultiple(script))).toBe('done')
  expect(await codeOf(ours.executeMultiple(script))).toBe('SQL_PARSE_ERROR')
  expect((await ours.execute('select a from t')).rows).toEqual([{ a: 'before' }])
  await ours.execute('delete from t')
})

test('constraint errors have the codes that tools expect, and Baton’s error as their cause', async () => {
  await ours.execute("insert into t values ('x')")
  const insert = "insert into t values ('x')"
  const [theirs, replacement] = await Promise.all(
    [original, ours].map((db) => db.execute(insert).catch((error: unknown) => error as LibsqlError)),
  )
  expect(theirs).toMatchObject({ code: 'SQLITE_CONSTRAINT', extendedCode: undefined, rawCode: undefined })
  expect(replacement).toMatchObject({
    code: 'SQLITE_CONSTRAINT',
    extendedCode: 'SQLITE_CONSTRAINT_UNIQUE',
    rawCode: 2067,
    cause: { name: 'SqlError', constraint: { kind: 'unique', table: 't', columns: ['a'] } },
  })
})

test('a violated primary key has its own code on servers that report it', async () => {
  await ours.execute('create table keyed (id integer primary key)')
  const [extendedCode, rawCode] =
    inject('target') === 'embedded'
      ? ['SQLITE_CONSTRAINT_PRIMARYKEY', 1555]
      : ['SQLITE_CONSTRAINT_UNIQUE', 2067]
  const violation = { code: 'SQLITE_CONSTRAINT', extendedCode, rawCode }
  await expect(ours.execute('insert into keyed values (1), (1)')).rejects.toMatchObject(violation)
  const batch = ['insert into keyed values (1)', 'insert into keyed values (1)']
  await expect(ours.batch(batch)).rejects.toMatchObject({ ...violation, statementIndex: 1 })
})

test('-0 is preserved, and a lone surrogate is rejected', async () => {
  expect((await original.execute('select ? as a', [-0])).rows[0]?.['a']).toBe(0)
  expect((await ours.execute('select ? as a', [-0])).rows[0]?.['a']).toBe(-0)
  await expect(ours.execute('select ?', ['\ud800'])).rejects.toThrow(RangeError)
})

// the original's own tests expect the same, but over HTTP, the original commits the last statement outside the transaction
test.each([
  ['ROLLBACK', ['insert into t values (1)', 'rollback', 'insert into t values (3)'], ['done', 'done']],
  [
    'INSERT OR ROLLBACK',
    ['insert into t values (1)', 'insert or rollback into t values (1)', 'insert into t values (3)'],
    ['done', 'SQLITE_CONSTRAINT'],
  ],
  [
    'INSERT OR ROLLBACK as the first',
    ['insert or rollback into t values (7)', 'insert into t values (3)'],
    ['SQLITE_CONSTRAINT'],
  ],
])('%s among transaction calls that are not awaited: the calls after it do not run', async (...args) => {
  const [, statements, expectedCodes] = args
  const runStatements = async (db: Client): Promise<unknown[]> => {
    await ours.executeMultiple('delete from t; insert into t values (7)')
    const tx = await db.transaction('write')
    const calls = await Promise.all(statements.map((sql) => codeOf(tx.execute(sql))))
    const committed = await codeOf(tx.commit())
    tx.close()
    return [calls, committed === 'done', (await ours.execute('select a from t order by a')).rows]
  }
  expect(await runStatements(ours)).toEqual([[...expectedCodes, 'TRANSACTION_CLOSED'], false, [{ a: 7 }]])
  expect((await runStatements(original))[2]).toContainEqual({ a: 3 })
})

test('a closed client rejects calls until it is reopened', async () => {
  const client = createClient(config)
  const tx = await client.transaction('read')
  client.close()
  expect(client.closed).toBe(true)
  expect(await codeOf(tx.execute('select 1'))).not.toBe('done')
  expect(await codeOf(client.execute('select 1'))).toBe('UNKNOWN')
  expect(await codeOf(client.transaction())).toBe('UNKNOWN')
  client.close()
  client.reconnect()
  expect(client.closed).toBe(false)
  expect((await client.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
  client.close()
})

test('calls in flight finish when the client is closed or reopened', async () => {
  const client = createClient(config)
  const first = client.execute('select 1 as a')
  client.reconnect()
  const second = client.execute('select 2 as a')
  client.close()
  expect([(await first).rows, (await second).rows]).toEqual([[{ a: 1 }], [{ a: 2 }]])
})

test('a transaction that is open when the client is closed is rolled back at once', async () => {
  await ours.execute('delete from t')
  const client = createClient(config)
  const tx = await client.transaction('write')
  await tx.execute("insert into t values ('open')")
  const second = tx.execute("insert into t values ('open, too')")
  client.close()
  await second
  expect(await codeOf(tx.execute("insert into t values ('late')"))).toBe('TRANSACTION_CLOSED')
  expect(await codeOf(tx.commit())).toBe('TRANSACTION_CLOSED')
  // the lock was released; otherwise the server would hold it for 5 s
  const write = ours.execute("insert into t values ('next')")
  expect(await settlesBefore(write, pause(2_500))).toBe(true)
  await write
  expect((await ours.execute('select a from t')).rows).toEqual([{ a: 'next' }])
  await ours.execute("delete from t where a = 'next'")
})

/** Returns the URL of the first request of a client. */
async function requestedUrl(create: typeof createOriginal, url: string): Promise<string> {
  let requested = ''
  const fetch = async (request: Request): Promise<Response> => {
    requested ||= request.url
    return new Response(null, { status: 404 })
  }
  const client = create({ url, fetch })
  await client.execute('select 1').catch(() => {})
  client.close()
  return requested
}

test.each(['http://x/a', 'http://x/a/', 'http://x/a/b', 'http://x', 'libsql://x:1/a%20b?tls=0'])(
  '%s is the URL of a database, whether or not it ends with a slash',
  async (url) => {
    const { pathname } = new URL(url.replace('libsql', 'http'))
    const path = pathname.replace(/\/$/, '')
    expect(await requestedUrl(createClient, url)).toMatch(new RegExp(`^http://x(:1)?${path}/v\\d`))
    // the original uses the parent
    const parent = pathname.slice(0, pathname.lastIndexOf('/'))
    expect(await requestedUrl(createOriginal, url)).toMatch(new RegExp(`^http://x(:1)?${parent}/v\\d`))
  },
)

test('a database without the slash at the end of its URL is that database', async () => {
  const client = createClient({ ...config, url: database.url.replace(/\/$/, '') })
  expect((await client.execute('select count(*) as n from t')).rows).toEqual([{ n: expect.any(Number) }])
  client.close()
})

test.each([
  [undefined, 'url is undefined: is its environment variable set?'],
  ['', 'url is empty: is its environment variable set?'],
  ['"http://x"', 'url begins or ends with a quote: remove it where it is set'],
  ["'http://x'", 'url begins or ends with a quote'],
  ['http://x/a"', 'url begins or ends with a quote'],
  ['http://x/a\n', 'url begins or ends with a space or a line break'],
  [' file:x.db', 'url begins or ends with a space or a line break'],
  ['localhost:8080', 'url has no scheme: did you mean http://localhost:8080?'],
  ['127.0.0.1:8080/a', 'url has no scheme: did you mean http://127.0.0.1:8080/a?'],
  ['libsql://ann:secret@x', 'url has an unsupported part: a user name or password'],
])('the URL %j is rejected with the remedy', async (url, message) => {
  const modules = await Promise.all([
    import('@batonsql/libsql-client'),
    import('@batonsql/libsql-client/web'),
    import('@batonsql/libsql-client/ws'),
  ])
  for (const { createClient: create, LibsqlError: ErrorClass } of modules) {
    const createWrong = (): unknown => create({ url: url as string })
    expect(createWrong).toThrow(ErrorClass)
    expect(createWrong).toThrow(expect.objectContaining({ code: 'URL_INVALID' }))
    expect(createWrong).toThrow(message)
  }
})

test('ws: uses HTTP, as does libsql: without TLS', async () => {
  const { host, pathname } = new URL(`${database.url}/`)
  for (const url of [`ws://${host}${pathname}`, `libsql://${host}${pathname}?tls=0`]) {
    const client = createClient({ ...config, url })
    expect((await client.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
    client.close()
  }
  expect(() => createClient({ url: 'ws://x?tls=1' })).toThrow('cannot opt into TLS')
})

test('a file: URL is handled by the original, whose errors are instances of the exported classes', async () => {
  const fileClient = createClient({ url: ':memory:' })
  const failed = await fileClient.batch(['selec 1']).catch((error: unknown) => error)
  expect(failed).toBeInstanceOf(LibsqlBatchError)
  expect(fileClient).toBeInstanceOf(Sqlite3Client)
  fileClient.close()
  // a path, not a host and a port
  expect(() => createClient({ url: 'file:2024/app.db' })).toThrow(
    /unable to open|Unable to open|ConnectionFailed/,
  )
})

test('accepts secrets followed by a newline, as is common in files', async () => {
  const client = createClient({
    ...config,
    authToken: `${database.authToken ?? 'any'}\n`,
    remoteEncryptionKey: 'key\n',
  })
  expect((await client.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
  client.close()
})

test('a custom fetch receives a Request, as with the original', async () => {
  const areRequests: unknown[] = []
  const fetch = (request: Request): Promise<Response> => {
    areRequests.push(request instanceof Request)
    return globalThis.fetch(request)
  }
  const client = createClient({ ...config, fetch })
  expect((await client.execute('select 1 as a')).rows).toEqual([{ a: 1 }])
  expect(areRequests).toEqual([true])
  client.close()
})

test('reports an unreachable server, and a response that is not from a database', async () => {
  const unreachable = createClient({ url: 'http://127.0.0.1:1' })
  expect(await codeOf(unreachable.execute('select 1'))).toBe('NETWORK')
  unreachable.close()
  const fetch = async (): Promise<Response> => new Response('<html>', { status: 502 })
  const client = createClient({ ...config, fetch })
  expect(await codeOf(client.execute('insert into t values (1)'))).toBe('SERVER_ERROR')
  client.close()
})

test('an infinite REAL is NaN; the original rejects it', async () => {
  expect((await ours.execute('select 9e999 as big, -9e999 as small')).rows[0]).toEqual({
    big: Number.NaN,
    small: Number.NaN,
  })
  expect(await codeOf(original.execute('select 9e999 as big'))).toBe('HRANA_PROTO_ERROR')
})

test('an INSERT that inserts nothing has no lastInsertRowid', async () => {
  const readRowids = async (client: Client): Promise<unknown> => {
    await client.executeMultiple('drop table if exists r; create table r (a integer primary key, b unique)')
    const results = await client.batch(
      [
        "insert into r values (5, 'x')",
        "insert or ignore into r values (6, 'x')",
        'insert into r select 7, 8 where false',
      ],
      'write',
    )
    return results.map(({ lastInsertRowid }) => lastInsertRowid)
  }
  expect(await readRowids(original)).toEqual([5n, 5n, 5n])
  expect(await readRowids(ours)).toEqual([5n, undefined, undefined])
})

test.each<[string, (client: Client) => Promise<unknown>]>([
  ['execute', (client) => client.execute("insert into t values ('closing')")],
  ['batch', (client) => client.batch(["insert into t values ('closing')"], 'write')],
  ['migrate', (client) => client.migrate(["insert into t values ('closing')"])],
  ['executeMultiple', (client) => client.executeMultiple("insert into t values ('closing')")],
])('a call of %s in the same tick as close() is completed', async (_, call) => {
  const count = async (create: typeof createOriginal): Promise<unknown> => {
    await ours.execute('delete from t')
    const client = create(config)
    const result = codeOf(call(client))
    client.close()
    return [await result, (await ours.execute('select count(*) as n from t')).rows[0]?.['n']]
  }
  expect(await count(createClient)).toEqual(['done', 1])
  expect(await count(createOriginal)).toEqual(['UNKNOWN', 0])
})

test('incomplete text at the end of a script is an error', async () => {
  expect(await codeOf(ours.executeMultiple('select 1; selec'))).toBe('SQL_PARSE_ERROR')
  if (inject('target') === 'sqld')
    expect(await codeOf(original.executeMultiple('select 1; selec'))).toBe('done')
})

test('the error of an inexact integer names the modes that this package has', async () => {
  const error: unknown = await ours
    .execute('select 9007199254740993 as big')
    .catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(RangeError)
  expect((error as Error).message).toBe(
    "column big: 9007199254740993 is not exact as a number; use intMode 'bigint' or 'string'",
  )
  for (const intMode of ['bigint', 'string'] as const) {
    const client = createClient({ ...config, intMode })
    const { rows } = await client.execute('select 9007199254740993')
    expect(rows[0]?.[0]).toEqual(intMode === 'bigint' ? 9007199254740993n : '9007199254740993')
    client.close()
  }
})
