import { BatonDialect } from '@batonsql/kysely-dialect'
import {
  DummyDriver,
  Kysely,
  type KyselyConfig,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  sql,
} from 'kysely'
import { afterAll } from 'vitest'
import { countRequests } from '../../support/fixtures.ts'
import { openTestServer } from '../../support/test-server.ts'

/** Creates a database for the calling test file, runs the statements, and opens a Kysely that logs its SQL. */
export async function openKysely<Tables>(statements: readonly string[], config: Partial<KyselyConfig> = {}) {
  const database = await (await openTestServer()).createDatabase()
  const log: string[] = []
  const db = new Kysely<Tables>({
    dialect: new BatonDialect(database.config),
    log: (event) => void log.push(event.query.sql),
    ...config,
  })
  afterAll(() => db.destroy())
  for (const statement of statements) await sql.raw(statement).execute(db)
  const countRequestsOf = (work: () => Promise<unknown>): Promise<number> => countRequests(database, work)
  return { database, db, log, countRequestsOf }
}

/** Creates a Kysely with another dialect. */
export const createOtherKysely = <Tables>(): Kysely<Tables> =>
  new Kysely({
    dialect: {
      createAdapter: () => new SqliteAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (kysely) => new SqliteIntrospector(kysely),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  })
