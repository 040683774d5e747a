import { ROW_COUNT, VECTOR_COUNT } from '../lib/subject.ts'
import type { Operation } from '../lib/turns.ts'

const SPEED_LABEL = 'baton @ libsql-server, µs'

/** The operations of core and of other clients, compared with raw undici. */
export const CLIENT_OPERATIONS: readonly Operation[] = [
  { name: 'select', title: 'SELECT, one by one', count: 400, goals: { [SPEED_LABEL]: '>= 0.95' } },
  {
    name: 'select',
    title: 'SELECT, 64 in flight',
    count: 2_000,
    inFlight: 64,
    goals: { [SPEED_LABEL]: '>= 0.95', 'baton, coalescing @ libsql-server, µs': '>= 3.00' },
  },
  { name: 'insert', title: 'INSERT, one by one', count: 200 },
  { name: 'insert', title: 'INSERT, 64 in flight', count: 1_000, inFlight: 64 },
  {
    name: 'transaction',
    title: 'transaction of three awaited statements',
    count: 500,
    goals: { [SPEED_LABEL]: '>= 0.95' },
  },
  { name: 'transactionAtOnce', title: 'transaction of five statements at once', count: 150 },
  { name: 'batch10', title: 'batch of 10', count: 100 },
  { name: 'batch100', title: 'batch of 100', count: 30 },
  { name: 'batch10000', title: 'batch of 10,000', count: 1 },
  {
    name: 'rows',
    title: '10,000 rows of six columns, per row',
    count: 10,
    itemCount: ROW_COUNT,
    goals: { 'baton @ libsql-server, client CPU µs': '<= 1.20' },
  },
  { name: 'vectors', title: '1,000 vectors of 384 floats, per vector', count: 10, itemCount: VECTOR_COUNT },
]

export const CLIENTS = {
  undici: 'client/undici',
  baton: 'client/baton',
  'baton, coalescing': 'client/baton-coalescing',
  '@libsql/client': 'client/libsql-client',
  '@batonsql/libsql-client': 'client/drop-in',
  '@tursodatabase/serverless': 'client/serverless',
  'libsql-stateless-easy': 'client/stateless-easy',
}
