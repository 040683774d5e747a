export type { DatabaseAddress } from './server/server.ts'
export type { TestHooks } from './testing/runner-hooks.ts'
export type { Template } from './testing/seeded-server.ts'
export { type TestDatabase, type UseDatabaseOptions, useDatabase } from './testing/use-database.ts'
