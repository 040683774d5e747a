import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { ALLOWED_FUNCTIONS } from '@batonsql/server-common/sql'
import { describe, expect, onTestFinished, test } from 'vitest'
import { close, execute, type PipelineReply, pipeline, query } from '../server/wire.ts'
import { IS_RELEASE, SEED, seeded } from '../support/random.ts'
import { words } from '../support/words.ts'
import { AttackedServer } from './attacked-server.ts'
import { CALL_SCHEMA, generateCall } from './generated-calls.ts'

/** Calls that access memory out of bounds, or exhaust the stack. */
const UNSAFE_CALLS = [
  "replicate('abc', 2863311531)",
  "replicate('abc', 0)",
  "padl('é€\u{1f600}', 4294967295)",
  "padr('é€\u{1f600}', 4294967295)",
  "padc('é€\u{1f600}', 4294967295)",
  "leftstr(cast(x'f0' as text), 3)",
  "rightstr('abc', 2863311531)",
  "strfilter(cast(x'616161' as text), cast(x'61f0' as text))",
  "reverse(cast(x'f0' as text))",
  'proper(zeroblob(9))',
  "charindex(cast(x'f0' as text), 'a')",
  "difference('a', 'b')",
  'median(1)',
  'mode(1)',
  'lower_quartile(1)',
  'upper_quartile(1)',
]

/** Other functions of the engine: some that were fixed, an additional one, and one that rejects all calls. */
const OTHER_FUNCTIONS: readonly string[] = words(
  'regexp regexpi vector8 vector16 vectorb16 vector1bit load_extension sqlite_log',
)

const SECRET = 'a row of a transaction that is open'

/** Starts a server, creates a read-only token, and opens a transaction, which must still exist at the end. */
async function openTransaction() {
  const server = await AttackedServer.start({ backend: 'embedded', auth: true })
  const token = (await server.headers()).authorization?.slice('Bearer '.length) as string
  const reader = await server.server.createToken('app', { authorization: 'read-only' })
  await query(server.url(), 'create table t(a)', { token })
  const transaction = await pipeline(
    server.url(),
    [execute('begin immediate'), execute(`insert into t values ('${SECRET}')`)],
    { token },
  )
  let { baton } = transaction
  let pending: Promise<void> = Promise.resolve()
  // a stream expires after 10 s without a request, and some tests take longer on a slow machine
  const timer = setInterval(() => {
    pending = pending.then(async () => {
      const reply = await pipeline(server.url(), [execute('select 1')], { token, baton })
      baton = reply.baton
    })
  }, 1_000)
  onTestFinished(() => clearInterval(timer))
  const commit = async (): Promise<PipelineReply> => {
    clearInterval(timer)
    await pending
    return await pipeline(server.url(), [execute('commit'), close], { token, baton })
  }
  return { server, token, reader, commit }
}

test('the engine has no functions except those in the list', async () => {
  await using server = await AttackedServer.start({ backend: 'embedded', auth: false })
  const functions = await query(server.url(), 'select distinct lower(name) from pragma_function_list')
  const unlisted = functions.flat().filter((name) => !ALLOWED_FUNCTIONS.has(String(name)))
  expect(unlisted.sort()).toEqual([...OTHER_FUNCTIONS].sort())
  const reply = await pipeline(server.url(), [execute("select sqlite_log(1, 'a')"), close])
  expect(reply.results[0]?.error?.code).toBe('SQLITE_AUTH')
})

test('rejects unsafe calls with a read-only token in any spelling, while a transaction stays open', async () => {
  const { server, reader, commit } = await openTransaction()
  await using _ = server
  for (const call of UNSAFE_CALLS) {
    for (const sql of [
      `select ${call}`,
      `select 1 where ${call.toUpperCase()} is null`,
      `values ("${call.replace('(', '"(')})`,
    ]) {
      const { status, results } = await pipeline(server.url(), [execute(sql), close], { token: reader })
      expect([status, results[0]?.error?.message], sql).toEqual([
        200,
        expect.stringMatching(/no such function/i),
      ])
    }
  }
  expect((await commit()).results[0]?.type).toBe('ok')
  expect(await query(server.url(), 'select * from t', { token: reader })).toEqual([[SECRET]])
})

test.each([
  'create table d(a, b default (CALL))',
  'create table d(a, b as (CALL))',
  'create table d(a check (CALL is null))',
  'create index d on t(CALL)',
  'create index d on t(a) where CALL is null',
])('a schema cannot contain unsafe functions: %s', async (sql) => {
  await using server = await AttackedServer.start({ backend: 'embedded', auth: false })
  await query(server.url(), 'create table t(a)')
  const texts = [sql.replace('CALL', "replicate('a', 0)"), 'insert into d(a) values (1) returning *']
  const reply = await pipeline(server.url(), [...texts.map((text) => execute(text)), close])
  // a default value is checked when it is used
  expect(reply.results[1]?.type).toBe('error')
  await query(server.url(), 'drop table if exists d')
  await query(server.url(), sql.replace('CALL', "coalesce('a', 0)"))
})

test.each([
  ['create view d as select CALL as a', 'select * from d'],
  ['create trigger d after insert on t begin select CALL; end', 'insert into t values (1)'],
])('unsafe functions in an existing schema fail: %s', async (definition, statement) => {
  await using server = await AttackedServer.start({ backend: 'embedded', auth: false })
  await query(server.url(), 'create table t(a)')
  await pipeline(server.url(), [execute(definition.replace('CALL', "replicate('a', 0)")), close])
  const reply = await pipeline(server.url(), [execute(statement), close])
  expect(reply.results[0]?.error?.message).toContain('no such function: replicate')
})

test('a database file created elsewhere cannot call unsafe functions either', async () => {
  await using server = await AttackedServer.start({ backend: 'embedded', auth: false })
  const path = join(server.directory, 'elsewhere.db')
  const file = new DatabaseSync(path)
  file.function('replicate', { deterministic: true, directOnly: false }, (text) => text)
  file.exec(`create table c(a check (replicate(a) <> ''));
    create table g(a, b as (replicate(a)));
    create table i(a); create index i_a on i(replicate(a));
    insert into g values (1); insert into i values (1)`)
  file.close()
  const { url } = await server.server.createDatabase('elsewhere', { fromFile: path })
  for (const sql of [
    'insert into c values (1)',
    'select b from g',
    'insert into i values (2)',
    'select * from i where replicate(a) = 1',
  ]) {
    const reply = await pipeline(url, [execute(sql), close])
    expect([reply.status, reply.results[0]?.error?.message], sql).toEqual([
      200,
      expect.stringMatching(/(?:no such|unknown) function: replicate/),
    ])
  }
  expect(await query(url, 'select a from g')).toEqual([['1']])
})

describe('regexp', () => {
  test.each([
    ["'abab-2024-01-31' regexp '^(ab)+-[0-9]{4}(-\\d{2}){2}$'", '1'],
    ["'Ab' regexp '^a'", '0'],
    ["regexpi('^a', 'Ab')", '1'],
    ["'aaaa' regexp '^a{1,3}$'", '0'],
    [`'x' regexp '${'('.repeat(200)}x${')'.repeat(199)}'`, null],
  ])('%s', async (expression, value) => {
    await using server = await AttackedServer.start({ backend: 'embedded', auth: false })
    const reply = await pipeline(server.url(), [execute(`select ${expression}`), close])
    expect(reply.results[0]?.response?.result?.rows[0]?.[0]?.value ?? null).toBe(value)
  })

  test.each([
    ["replace(hex(zeroblob(50000)), '00', '(')", 'too many brackets'],
    ["'a{2147483647}'", 'the pattern is too large'],
    ["'a{4294967296}'", 'the pattern is too large'],
    ["'(((a{1000}){1000}){1000})*'", 'the pattern is too large'],
    ["replace(hex(zeroblob(5000)), '00', 'a*')", 'the pattern is too large'],
  ])('rejects %s', async (pattern, message) => {
    await using server = await AttackedServer.start({ backend: 'embedded', auth: false })
    const reply = await pipeline(server.url(), [execute(`select 'aaaa' regexp ${pattern}`), close])
    expect(reply.results[0]?.error?.message).toContain(message)
  })
})

test('vectors from malformed or empty text do not leak memory', async () => {
  await using server = await AttackedServer.start({ backend: 'embedded', auth: false })
  const longVector = "vector32(replace(hex(zeroblob(20000)), '00', '['))"
  const reply = await pipeline(server.url(), [
    execute(`select ${longVector}`),
    execute('select libsql_vector_idx()'),
    close,
  ])
  expect(reply.results[0]?.error?.message).toMatch(/length exceeded 1024 characters: '\[{1024}'/)
  expect(reply.results[1]?.response?.result?.rows).toEqual([[{ type: 'null' }]])
})

test('vectors from text with a NUL, and from a malformed blob, do not leak memory', async () => {
  await using server = await AttackedServer.start({ backend: 'embedded', auth: false })
  for (const name of ['vector', 'vector32', 'vector64', 'vector8', 'vector16', 'vectorb16', 'vector1bit']) {
    const commas = "replace(hex(zeroblob(1000)), '00', ',')"
    const sql = `select length(${name}('[1]' || char(0) || ${commas})) = length(${name}('[1]'))`
    expect(await query(server.url(), sql), name).toEqual([['1']])
  }
  await query(server.url(), 'create table v(id integer primary key, e F32_BLOB(3))')
  await query(server.url(), 'create index v_e on v(libsql_vector_idx(e))')
  for (let type = 0; type < 16; type += 1) {
    const byte = type.toString(16).padStart(2, '0')
    for (const data of ['', '00', '0000', 'ffff', '00000000ff00', '00ff00ff00ff00ff']) {
      const { text } = await pipeline(server.url(), [
        execute(`select vector_extract(x'${data}${byte}')`),
        execute(`select vector8(x'${data}${byte}')`),
        execute(`select * from vector_top_k('v_e', x'${data}${byte}', 1)`),
        close,
      ])
      expect(text, `${data}${byte}`).not.toContain('the engine of this database failed')
    }
  }
})

test('parts of a blob can be requested, even beyond its end', async () => {
  const { server, reader, commit } = await openTransaction()
  await using _ = server
  for (let round = 0; round < 40; round += 1) {
    const bytes = (1 + (round % 4)) * 1024 * 1024
    const start = [1, bytes - 2, bytes + 1, 156_250, 4_294_967_296, 2_147_483_647][round % 6]
    const sql = `select length(substr(zeroblob(${bytes}), ${start}, 100)), substr(x'00', ${start})`
    const { status, text } = await pipeline(server.url(), [execute(sql), close], { token: reader })
    expect(status, text).toBe(200)
  }
  expect((await commit()).results[0]?.type).toBe('ok')
})

/** Returns nested arrays as JSONB. */
function nestedArrays(depth: number): Buffer {
  const blob = Buffer.alloc(depth * 5)
  for (let index = 0; index < depth; index += 1) {
    blob[index * 5] = 0xeb
    blob.writeUInt32BE((depth - index - 1) * 5, index * 5 + 1)
  }
  return blob
}

test('JSON that is nested too deeply is rejected, and a transaction stays open', async () => {
  const { server, reader, commit } = await openTransaction()
  await using _ = server
  const path = "'$' || replace(hex(zeroblob(100000)), '00', '.a')"
  const indexes = "'$' || replace(hex(zeroblob(100000)), '00', '[#]')"
  const texts = [
    `select json_set('{}', ${path}, 1)`,
    `select json_insert('[]', ${indexes}, 1)`,
    `select json_extract('{}', ${path})`,
    `select '{}' -> (${path})`,
  ]
  const blobs = [
    'json(?)',
    "json_extract(?, '$[0]')",
    'json_patch(?, ?)',
    'jsonb_patch(?, ?)',
    'json_array(json(?))',
  ]
  const base64 = nestedArrays(200_000).toString('base64')
  for (const sql of [...texts, ...blobs.map((call) => `select ${call}`)]) {
    const args = Array.from({ length: sql.split('?').length - 1 }, () => ({ type: 'blob', base64 }))
    const stmt = { sql, args }
    const { status, text } = await pipeline(server.url(), [{ type: 'execute', stmt }, close], {
      token: reader,
    })
    expect([status, text.includes('engine')], sql).toEqual([200, false])
  }
  const nestedQuery = `select json_extract(json_set('{}', '$' || replace(hex(zeroblob(900)), '00', '.a'), 7), '$' || replace(hex(zeroblob(900)), '00', '.a'))`
  expect(await query(server.url(), nestedQuery, { token: reader })).toEqual([['7']])
  expect((await commit()).results[0]?.type).toBe('ok')
})

test('calls with unexpected arguments do not crash the engine', async () => {
  const { server, token, reader, commit } = await openTransaction()
  await using _ = server
  const otherUrl = server.url('other')
  const owner = (await server.headers('other')).authorization?.slice('Bearer '.length) as string
  for (const sql of CALL_SCHEMA) await query(otherUrl, sql, { token: owner })
  const random = seeded(SEED)
  // a few at a time, so that the transaction of the other database does not expire in the meantime
  const rounds = IS_RELEASE ? 120 : 40
  for (let round = 0; round < rounds; round += 1) {
    const calls = Array.from({ length: 25 }, () => generateCall(random))
    const { text } = await pipeline(otherUrl, [...calls.map((sql) => execute(sql)), close], { token: owner })
    expect(text, calls.join(';\n')).not.toContain('engine')
  }
  expect((await commit()).results[0]?.type).toBe('ok')
  expect(await query(server.url(), 'select count(*) from t', { token: reader })).toEqual([['1']])
  await query(server.url(), 'select 1', { token })
})
