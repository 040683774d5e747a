import { coalesce, createClient, readRows } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { migrate } from '@batonsql/drizzle-driver/migrator'
import { BatonDialect } from '@batonsql/kysely-dialect'
import { createPlatformClient } from '@batonsql/platform'
import { eq } from 'drizzle-orm'
import { blob, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { Kysely } from 'kysely'

// The operations that every runtime performs on its own database. They use nothing specific to one runtime: no Node.js built-ins,
// no special globals.

/** The settings of the scenario. Strings, so that they can be passed to any runtime. */
export interface Settings {
  readonly url: string
  readonly authToken: string
  readonly database: string
  readonly platformUrl: string
  readonly platformToken: string
  readonly organization: string
}

/** 2^53 + 1, which a number cannot represent. */
const LARGE_INTEGER = 9_007_199_254_740_993n
const BYTES = new Uint8Array([0, 255, 128, 10])

/** Runs all parts. @returns the names of the parts @throws Error at the first unexpected result */
export async function scenario(settings: Settings): Promise<string> {
  await useCore(settings)
  await useKysely(settings)
  await useDrizzle(settings)
  await usePlatform(settings)
  return 'core, Kysely, Drizzle, platform: ok'
}

async function useCore({ url, authToken }: Settings): Promise<void> {
  const db = createClient({ url, authToken })
  const insert = 'insert into value (id, large, bytes) values (?, ?, ?)'
  await db.batch([
    'create table value (id integer primary key, large integer, bytes blob)',
    { sql: insert, args: [1, LARGE_INTEGER, BYTES] },
  ])
  const { rows } = await db.execute('select large, bytes from value where id = ?', [1])
  expectSame('a large integer', rows[0]?.['large'], LARGE_INTEGER)
  expectSame('a blob', String(rows[0]?.['bytes']), String(BYTES))
  await db.transaction(async (tx) => {
    await tx.execute(insert, [2, 2, BYTES])
    expectSame('inside a transaction', (await tx.execute('select id from value')).rows.length, 2)
  })
  const ownError = new RangeError('on purpose')
  const undone = db.transaction(async (tx) => {
    await tx.execute('delete from value')
    throw ownError
  })
  expectSame('an error inside a transaction', await catchError(undone), ownError)
  const error = await catchError(db.execute(insert, [2, 3, null]))
  expectSame('the code of an error', codeOf(error), 'SQLITE_CONSTRAINT')
  const ids: unknown[] = []
  for await (const { id } of readRows(db, 'select id from value order by id')) ids.push(id)
  expectSame('rows that are streamed', String(ids), '1,2')
  const sharing = createClient({ url, authToken, coalesce })
  const results = await Promise.all([sharing.execute('select 1 as n'), sharing.execute('select 2 as n')])
  expectSame('shared requests', results.map(({ rows }) => rows[0]?.['n']).join(), '1,2')
  const last = sharing.execute('select 3 as n')
  await sharing.close({ drainMs: 10_000 })
  expectSame('a call before close', (await last).rows[0]?.['n'], 3)
  await db.close()
  expectSame('a closed client', (await catchError(db.execute('select 1'))).message, 'the client is closed')
}

async function useKysely({ url, authToken }: Settings): Promise<void> {
  interface Tables {
    shelf: { id: number; label: string }
  }
  const db = new Kysely<Tables>({ dialect: new BatonDialect({ url, authToken }) })
  await db.schema
    .createTable('shelf')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('label', 'text')
    .execute()
  await db.transaction().execute(async (trx) => {
    await trx.insertInto('shelf').values({ id: 1, label: 'Kysely' }).execute()
    await trx.updateTable('shelf').set({ label: 'Kysely!' }).where('id', '=', 1).execute()
  })
  const shelves = await db.selectFrom('shelf').select('label').execute()
  expectSame('rows from Kysely', shelves.map(({ label }) => label).join(), 'Kysely!')
  const error = await catchError(db.insertInto('shelf').values({ id: 1, label: 'again' }).execute())
  expectSame('the code of an error in Kysely', codeOf(error), 'SQLITE_CONSTRAINT')
  await db.destroy()
}

async function useDrizzle({ url, authToken }: Settings): Promise<void> {
  const track = sqliteTable('track', {
    id: integer().primaryKey(),
    title: text().notNull(),
    sound: blob({ mode: 'buffer' }),
  })
  const db = drizzle({ connection: { url, authToken }, schema: { track } })
  const createTrack = 'create table track (id integer primary key, title text not null, sound blob)'
  const migrations = [{ tag: '0000_track', sql: createTrack, when: 1_700_000_000_000 }]
  expectSame('migrations', (await migrate(db, { migrations })).join(), '0000_track')
  await db.transaction(async (tx) => {
    // edge platforms have no Buffer
    await tx.insert(track).values({ id: 1, title: 'Drizzle', sound: new Uint8Array([1, 2]) as Buffer })
    await tx.update(track).set({ title: 'Drizzle!' }).where(eq(track.id, 1))
  })
  expectSame('a row from Drizzle', (await db.query.track.findFirst())?.title, 'Drizzle!')
  const [stored] = await db.select().from(track)
  expectSame('a blob from Drizzle', [...(stored?.sound ?? [])].join(), '1,2')
  const error = await catchError(db.insert(track).values({ id: 1, title: 'again' }))
  expectSame('the code of an error in Drizzle', codeOf(error.cause), 'SQLITE_CONSTRAINT')
  await db.$client.close()
}

async function usePlatform({ platformUrl, platformToken, organization, database }: Settings): Promise<void> {
  const platform = createPlatformClient({ url: platformUrl, token: platformToken, organization })
  const names: string[] = []
  for await (const { name } of platform.databases.list()) names.push(name)
  expectSame('this database among those of the platform', names.includes(database), true)
  const error = await catchError(platform.databases.get('no-such-database'))
  expectSame('the status of a platform error', (error as { status?: unknown }).status, 404)
}

const codeOf = (error: unknown): unknown => (error as { readonly code?: unknown }).code

async function catchError(promise: PromiseLike<unknown>): Promise<Error> {
  try {
    await promise
  } catch (error) {
    return error as Error
  }
  throw new Error('expected the call to fail')
}

function expectSame(label: string, actual: unknown, expected: unknown): void {
  if (actual !== expected) throw new Error(`${label} is ${String(actual)} instead of ${String(expected)}`)
}
