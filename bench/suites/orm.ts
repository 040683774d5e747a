import type { Operation } from '../lib/turns.ts'

/** Goals for both of our adapters. */
const goals = {
  'baton under Kysely @ libsql-server, µs': '>= 0.85',
  'baton under Drizzle @ libsql-server, µs': '>= 0.85',
}

/** The operations of the ORMs, compared with core and the same statements written by hand. */
export const ORM_OPERATIONS: readonly Operation[] = [
  { name: 'ormSelect', title: 'SELECT', count: 400, goals },
  { name: 'ormSelect', title: 'SELECT, 64 in flight', count: 1_500, inFlight: 64 },
  { name: 'ormInsert', title: 'INSERT … RETURNING', count: 200, goals },
  { name: 'ormRelational', title: 'relational query', count: 200 },
  { name: 'ormTransaction', title: 'transaction of three statements', count: 120, goals },
  { name: 'ormMigrate', title: 'migrate with nothing to do', count: 20 },
]

export const ORMS = {
  'by hand': 'orm/core',
  'baton under Kysely': 'orm/kysely-baton',
  '@libsql/kysely-libsql': 'orm/kysely-libsql',
  'baton under Drizzle': 'orm/drizzle-baton',
  'drizzle-orm/libsql': 'orm/drizzle-libsql',
}
