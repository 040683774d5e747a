import type { PipelineRequest } from '@batonsql/server-common/hrana'
import { describe, expect, test } from 'vitest'
import { estimateParsingBytes, MAX_LITERALS, MAX_TOKENS } from './parsing-estimate.ts'
import { decodeBody, rebuildBody } from './rebuild-body.ts'
import { findRejectionInTokens, type SqlUse } from './sql-guard.ts'
import { type SqlToken, tokenizeSql } from './sql-tokens.ts'

/** Returns how often the guard reads tokens of the SQL, as a measure of its work. */
function countReads(sql: string, use: SqlUse): number {
  let reads = 0
  const instrument = ({ kind, text }: SqlToken): SqlToken => ({
    get kind() {
      reads += 1
      return kind
    },
    get text() {
      reads += 1
      return text
    },
  })
  const { tokens, isAmbiguous } = tokenizeSql(sql)
  findRejectionInTokens(sql, { tokens: tokens.map(instrument), isAmbiguous }, use)
  return reads
}

const HEADS = [
  '',
  'select 1 from t',
  'with a as (select 1)',
  'create table t(a',
  'create trigger g after insert on t begin select 1',
  'create virtual table t using fts5(a',
  'explain select 1 from t where a in (1',
  'attach a as b; select 1 from t',
]
const FRAGMENTS = [
  ',x(1)',
  ',x(',
  ', x(1) as (select 1)',
  ',"x"(1)',
  ' x(1) not',
  '(',
  ')',
  ')(,x(',
  ' from x(1), y(1)',
  ' from distinct x(1)',
  ' join x(1)',
  ', abs(1)',
  ' regexp a',
  ', compress=lower',
  ' update i_shadow',
  ', i_shadow',
  ' insert into i_shadow on conflict',
  ' optimize(',
  ", 'readfil'",
  ', "fsdi"',
  ';',
  '; select x(1)',
  '; attach a as b',
  '; create index "a" on t(libsql_vector_idx(a))',
  '; pragma table_info(t)',
]
const USES: readonly SqlUse[] = [
  { kind: 'run', mayWrite: true },
  { kind: 'run', mayWrite: false, attach: 'attached' },
  { kind: 'describe', mayWrite: false },
  { kind: 'store', mayWrite: true },
]

describe('work grows at most linearly with the length of the SQL', () => {
  test.each(HEADS)('%j', (head) => {
    for (const use of USES) {
      for (const fragment of FRAGMENTS) {
        const [once, twice] = [200, 400].map((times) => countReads(head + fragment.repeat(times), use))
        // fixed costs are included in both
        expect(twice, fragment).toBeLessThanOrEqual((once ?? 0) * 2.1 + 100)
      }
    }
  })
})

describe('limits the tokens of a request', () => {
  const buildRequests = (sql: string): PipelineRequest[][] => {
    const statement = { sql, sqlId: null, args: [], namedArgs: [] }
    const half = { ...statement, sql: sql.slice(sql.length / 2) }
    const steps = [half, { ...half, sql: sql.slice(0, sql.length / 2) }]
    return [
      [{ type: 'execute', statement }],
      [{ type: 'batch', steps: steps.map((part) => ({ statement: part, condition: null })) }],
      steps.map((part) => ({ type: 'execute', statement: part })),
      [{ type: 'sequence', sql, sqlId: null }],
      [{ type: 'describe', sql, sqlId: null }],
      [{ type: 'store_sql', sqlId: 1, sql }],
    ]
  }

  test('counts all tokens of the request together', () => {
    for (const requests of buildRequests(';'.repeat(MAX_TOKENS)))
      expect(() => estimateParsingBytes(requests)).not.toThrow()
    for (const requests of buildRequests(';'.repeat(MAX_TOKENS + 2)))
      expect(() => estimateParsingBytes(requests)).toThrow('limited to 1,000,000 tokens')
  })

  test('rows of literals have their own limit', () => {
    const buildInsert = (rows: number): string =>
      `insert into t values ${Array.from({ length: rows }, () => "(-1, 'index; attach', NULL)").join()}`
    const rows = MAX_LITERALS / 3
    const [request] = buildRequests('').slice(3)
    const send = (sql: string): PipelineRequest[] => [{ ...request?.[0], sql } as PipelineRequest]
    expect(estimateParsingBytes(send(buildInsert(rows)))).toBeGreaterThan(0)
    expect(() => estimateParsingBytes(send(buildInsert(rows + 1)))).toThrow('limited to 1,500,000 literals')
    // the values of these rows are not literals
    expect(() => estimateParsingBytes(send(buildInsert(rows / 2).replaceAll('-1', 'a')))).toThrow(
      '1,000,000 tokens',
    )
  })

  test('does not count the characters of values and comments', () => {
    const long = 'a'.repeat(MAX_TOKENS)
    for (const requests of buildRequests(`select 1 /* ${long} */, 2 /* ${long} */`).slice(3))
      expect(() => estimateParsingBytes(requests)).not.toThrow()
  })
})

test('a rejected search keeps its reason', () => {
  const requests = [{ type: 'sequence', sql: 'select * from vector_top_k where k = 0' }]
  const rules = {
    mayWrite: false,
    blockReads: false,
    isSchema: false,
    resolveName: () => undefined,
    hadAttached: false,
  }
  const { text } = rebuildBody(decodeBody('/v3/pipeline', JSON.stringify({ requests })), rules)
  expect(JSON.parse(text).requests[0].sql).toMatch(/^SELECT "vector_top_k \(refused: it needs three/)
})
