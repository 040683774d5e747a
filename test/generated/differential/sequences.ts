import fc from 'fast-check'
import { SETUP, statement } from './statements.ts'

/** One HTTP request of a sequence. */
export interface Exchange {
  readonly route: '/v2/pipeline' | '/v3/pipeline' | '/v3/cursor'
  /** Whether it continues with the open stream of its client, if there is one. */
  readonly continues: boolean
  /** The client that sends it; each has its own stream. */
  readonly client?: 'second'
  readonly body: Readonly<Record<string, unknown>>
}

const value = fc.oneof(
  fc.constantFrom(
    { type: 'null' },
    { type: 'integer', value: '1' },
    { type: 'integer', value: '-9223372036854775808' },
    { type: 'integer', value: '9007199254740993' },
    { type: 'float', value: 1.5 },
    { type: 'float', value: -0 },
    { type: 'float', value: 1e300 },
    { type: 'text', value: '' },
    { type: 'text', value: 'a\u0000b \ud83d\ude00 "\\\u0001\u2028' },
    { type: 'blob', base64: 'AP8' },
    { type: 'blob', base64: '' },
  ),
  fc.string({ maxLength: 6 }).map((text) => ({ type: 'text', value: text })),
)

const args = fc.oneof(
  { weight: 6, arbitrary: fc.constant({}) },
  { weight: 4, arbitrary: fc.record({ args: fc.array(value, { minLength: 1, maxLength: 3 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      named_args: fc.array(fc.record({ name: fc.constantFrom('a', ':a', '@b', '2', '$c'), value }), {
        minLength: 1,
        maxLength: 2,
      }),
    }),
  },
)

const stmt = fc.oneof(
  { weight: 9, arbitrary: fc.tuple(statement, args).map(([sql, values]) => ({ sql, ...values })) },
  { weight: 1, arbitrary: fc.record({ sql_id: fc.constantFrom(1, 2) }) },
)

const condition: fc.Arbitrary<unknown> = fc.letrec<{ c: unknown }>((tie) => ({
  c: fc.oneof(
    { maxDepth: 2, depthIdentifier: 'condition' },
    fc.record({ type: fc.constantFrom('ok', 'error'), step: fc.constantFrom(0, 0, 0, 1, 2) }),
    fc.constant({ type: 'is_autocommit' }),
    tie('c').map((cond) => ({ type: 'not', cond })),
    fc.tuple(tie('c'), tie('c')).map((conds) => ({ type: 'and', conds })),
    fc.array(tie('c'), { maxLength: 2 }).map((conds) => ({ type: 'or', conds })),
  ),
})).c

const batch = fc.record({
  steps: fc.array(
    fc.oneof(
      { weight: 3, arbitrary: stmt.map((step) => ({ stmt: step })) },
      {
        weight: 1,
        arbitrary: fc.tuple(stmt, condition).map(([step, cond]) => ({ stmt: step, condition: cond })),
      },
    ),
    { maxLength: 4 },
  ),
})

const text = fc.array(statement, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(';'))

const request = fc.oneof(
  { weight: 12, arbitrary: stmt.map((body) => ({ type: 'execute', stmt: body })) },
  { weight: 4, arbitrary: batch.map((body) => ({ type: 'batch', batch: body })) },
  { weight: 2, arbitrary: text.map((sql) => ({ type: 'sequence', sql })) },
  { weight: 2, arbitrary: statement.map((sql) => ({ type: 'describe', sql })) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.constantFrom(1, 2), statement)
      .map(([id, sql]) => ({ type: 'store_sql', sql_id: id, sql })),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      { type: 'close_sql', sql_id: 1 },
      { type: 'get_autocommit' },
      { type: 'close' },
    ),
  },
)

const pipeline: fc.Arbitrary<Exchange> = fc
  .tuple(
    fc.constantFrom('/v3/pipeline', '/v3/pipeline', '/v2/pipeline'),
    fc.array(request, { minLength: 1, maxLength: 5 }),
    fc.boolean(),
    fc.boolean(),
  )
  .map(([route, requests, isClosed, continues]) => ({
    route,
    continues,
    body: { requests: isClosed ? [...requests, { type: 'close' }] : requests },
  }))

const cursor: fc.Arbitrary<Exchange> = fc
  .tuple(batch, fc.boolean())
  .map(([steps, continues]) => ({ route: '/v3/cursor', continues, body: { batch: steps } }))

const exchange: fc.Arbitrary<Exchange> = fc.oneof(
  { weight: 5, arbitrary: pipeline },
  { weight: 1, arbitrary: cursor },
)

const simpleRequest: fc.Arbitrary<Exchange> = fc
  .constantFrom('SELECT * FROM t', 'SELECT count(*) FROM u', 'BEGIN', 'COMMIT')
  .map((sql) => ({
    route: '/v3/pipeline',
    continues: true,
    body: { requests: [{ type: 'execute', stmt: { sql } }, { type: 'get_autocommit' }] },
  }))

/** The operations of a second client: mostly reads, because a write that waits for the lock takes seconds. */
const secondClient: fc.Arbitrary<Exchange> = fc
  .oneof({ weight: 3, arbitrary: simpleRequest }, { weight: 1, arbitrary: exchange })
  .map((operation) => ({ ...operation, client: 'second' }))

/** A sequence of requests to one database, by one client or two. */
export const sequence: fc.Arbitrary<readonly Exchange[]> = fc.oneof(
  { weight: 9, arbitrary: fc.array(exchange, { minLength: 1, maxLength: 4 }) },
  { weight: 1, arbitrary: fc.array(fc.oneof(exchange, secondClient), { minLength: 3, maxLength: 6 }) },
)

/** The first request of every sequence. */
export const SETUP_EXCHANGE: Exchange = {
  route: '/v3/pipeline',
  continues: false,
  body: { requests: [...SETUP.map((sql) => ({ type: 'execute', stmt: { sql } })), { type: 'close' }] },
}
