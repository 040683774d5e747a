import type { BatchStep, Condition, StatementRequest } from '@batonsql/server-common/hrana'
import { expect, test } from 'vitest'
import { packWork, unpackRequest, unpackStep } from './packed-work.ts'

const statement = (overrides: Partial<StatementRequest> = {}): StatementRequest => ({
  sql: 'select 1',
  sqlId: null,
  args: [],
  namedArgs: [],
  wantRows: undefined,
  ...overrides,
})
const CONDITIONS: readonly (Condition | null)[] = [
  null,
  { type: 'ok', step: 0 },
  { type: 'error', step: 0 },
  { type: 'not', condition: { type: 'ok', step: 1 } },
  { type: 'and', conditions: [{ type: 'is_autocommit' }, { type: 'or', conditions: [] }] },
]
const STEPS: readonly BatchStep[] = [
  ...CONDITIONS.map((condition) => ({ statement: statement(), condition })),
  { statement: statement({ sql: null, sqlId: 7 }), condition: null },
  { statement: statement({ args: [1n, -0, null, 'a', new Uint8Array([1])] }), condition: null },
  { statement: statement({ namedArgs: [['__proto__', 2n]] }), condition: null },
  { statement: statement({ wantRows: false }), condition: null },
]

test('steps are unchanged after packing and sending them', () => {
  const requests = [{ type: 'batch', steps: STEPS }, { type: 'get_autocommit' }] as const
  const pipeline = structuredClone(packWork({ type: 'pipeline', requests, version: 3 }))
  expect(pipeline).toMatchObject({ type: 'pipeline', version: 3 })
  expect(pipeline.type === 'pipeline' && pipeline.requests.map(unpackRequest)).toStrictEqual(requests)
  const cursor = structuredClone(packWork({ type: 'cursor', steps: STEPS }))
  expect(cursor.type === 'cursor' && cursor.steps.map(unpackStep)).toStrictEqual(STEPS)
})

test('replication indexes are not sent, and other work is unchanged', () => {
  const steps = [{ statement: statement({ replicationIndex: '5' }), condition: null }]
  const cursor = packWork({ type: 'cursor', steps })
  expect(cursor.type === 'cursor' && cursor.steps.map(unpackStep)).toStrictEqual([
    { statement: statement(), condition: null },
  ])
  const snapshot = { type: 'snapshot', path: 'p' } as const
  expect(packWork(snapshot)).toBe(snapshot)
})
