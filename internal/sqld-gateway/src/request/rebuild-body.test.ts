import { expect, test } from 'vitest'
import { decodeBody, rebuildBody } from './rebuild-body.ts'

const RULES = {
  mayWrite: true,
  blockReads: false,
  isSchema: false,
  resolveName: () => undefined,
  hadAttached: false,
}

/** Whether the stream of requests has another database attached after them. */
const attaches = (requests: readonly object[]): boolean =>
  rebuildBody(decodeBody('/v3/pipeline', JSON.stringify({ requests })), RULES).hasAttached

test.each<[string, (sql: string) => object]>([
  ['execute', (sql) => ({ stmt: { sql } })],
  ['batch', (sql) => ({ batch: { steps: [{ stmt: { sql } }] } })],
  ['sequence', (sql) => ({ sql })],
  ['describe', (sql) => ({ sql })],
  ['store_sql', (sql) => ({ sql, sql_id: 1 })],
])('a request of type `%s` attaches a database only if its SQL does', (type, build) => {
  expect(attaches([{ type, ...build('attach "other" as o') }])).toBe(true)
  expect(
    attaches([
      { type, ...build('select 1') },
      { type: 'sequence', sql_id: 1 },
    ]),
  ).toBe(false)
})
