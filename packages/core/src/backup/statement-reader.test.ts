import { expect, test } from 'vitest'
import { ProtocolError } from '../base/errors.ts'
import { readStatements, type ScriptSource } from './statement-reader.ts'

const read = async (source: ScriptSource): Promise<string[]> => {
  const statements: string[] = []
  for await (const { sql } of readStatements(source)) statements.push(sql)
  return statements
}

const SCRIPT = `-- a comment; with a semicolon
INSERT INTO t VALUES('it''s; ä 😀', "x;y", [a;b], \`c;d\`);
/* more; of
them */ CREATE TRIGGER tr AFTER INSERT ON t BEGIN
  INSERT INTO u VALUES (new.x); SELECT 'end;'; END;
SELECT ';;' ; ;
COMMIT;
-- the end
`
const STATEMENTS = [
  `INSERT INTO t VALUES('it''s; ä 😀', "x;y", [a;b], \`c;d\`)`,
  `CREATE TRIGGER tr AFTER INSERT ON t BEGIN\n  INSERT INTO u VALUES (new.x); SELECT 'end;'; END`,
  `SELECT ';;'`,
  'COMMIT',
]

test('reads the same statements regardless of where the text is split', async () => {
  const bytes = new TextEncoder().encode(SCRIPT)
  for (const size of [1, 2, 3, 5, 7, 50, 10_000]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
      bytes.subarray(n * size, (n + 1) * size),
    )
    expect(await read(pieces)).toEqual(STATEMENTS)
    // also if every chunk is scanned
    const padding = `SELECT '${'x'.repeat(70_000)}';`
    const statements = await read([padding, ...pieces, padding])
    expect(statements.map((sql) => sql.slice(0, 100))).toEqual([
      padding.slice(0, 100),
      ...STATEMENTS,
      padding.slice(0, 100),
    ])
  }
})

test('reads text, chunks, streams, and asynchronous iterables', async () => {
  expect(await read(SCRIPT)).toEqual(STATEMENTS)
  expect(await read(SCRIPT.split(/(?=;)/))).toEqual(STATEMENTS)
  expect(await read(new Blob([SCRIPT]).stream())).toEqual(STATEMENTS)
  const stream = new Blob([SCRIPT]).stream()
  // as on platforms where a stream is not iterable
  const bare = { getReader: () => stream.getReader() } as ReadableStream<Uint8Array>
  expect(await read(bare)).toEqual(STATEMENTS)
  expect(await read('')).toEqual([])
})

test('yields statements before the script has ended', async () => {
  const gate = Promise.withResolvers<void>()
  const source = async function* (): AsyncGenerator<string> {
    yield `SELECT 1; SELECT '${'x'.repeat(70_000)}'; SELECT`
    await gate.promise
    yield ' 3;'
  }
  const statements = readStatements(source())
  expect((await statements.next()).value?.sql).toBe('SELECT 1')
  gate.resolve()
  await statements.next()
  expect((await statements.next()).value?.sql).toBe('SELECT 3')
})

test.each([
  'SELECT 1; SELECT 2',
  "SELECT 1; SELECT 'x",
  'SELECT 1; /* x',
  'SELECT 1; CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT 1;',
  "SELECT 1; INSERT INTO t VALUES('a;",
])('rejects a script that ends in the middle of a statement: %s', async (script) => {
  const statements: string[] = []
  const readAll = async (): Promise<void> => {
    for await (const { sql } of readStatements([script])) statements.push(sql)
  }
  await expect(readAll()).rejects.toThrow(ProtocolError)
  expect(statements).toEqual(['SELECT 1'])
})

test('rejects bytes that are not UTF-8, or that end within a character', async () => {
  for (const bytes of [
    [0x53, 0xff, 0x3b],
    [0x53, 0x3b, 0xc3],
  ])
    await expect(read([Uint8Array.from(bytes)])).rejects.toThrow('not UTF-8')
  const file = Buffer.from('SQLite format 3\0\x10\0\x01\x01\0@  \xff', 'latin1')
  await expect(read([file])).rejects.toThrow('the source is an SQLite file')
  expect(await read([Uint8Array.from([0xef, 0xbb, 0xbf, 0x53, 0x3b])])).toEqual(['S'])
})

test.each([
  [new Uint8Array(2)],
  [[5]],
  [[null]],
  [[undefined]],
  [[{}]],
  [null],
  [undefined],
  [5],
  [{}],
  [new Response('')],
])('rejects %o as a source', async (source) => {
  await expect(read(source as never)).rejects.toThrow(
    /^expected text, a stream, or chunks such as \[bytes\], not /,
  )
})

test('a long statement in many chunks is scanned a few times, not once per chunk', async () => {
  const value = 'x'.repeat(20_000_000)
  const script = `INSERT INTO t VALUES('${value}');`
  const pieces = Array.from({ length: 20_000 }, (_, n) => script.slice(n * 1_001, (n + 1) * 1_001))
  // 20,000 scans of 10 MB each would exceed the time limit of the test
  expect((await read(pieces))[0]).toHaveLength(script.length - 1)
})

test.each(['\n', '\r\n', ' ', ''])(
  'a virtual table of libsql-server, whose quotes are not doubled, ends before %j',
  async (separator) => {
    const virtualTable =
      "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table','f','f',0,'CREATE VIRTUAL TABLE f USING fts5(a, tokenize=\"unicode61 separators ';''\")');"
    const script = [virtualTable, 'CREATE TABLE t(a);', virtualTable].join(separator)
    const statements = [virtualTable.slice(0, -1), 'CREATE TABLE t(a)', virtualTable.slice(0, -1)]
    for (const size of [1, 7, 10_000])
      expect(await read(script.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [])).toEqual(statements)
  },
)
