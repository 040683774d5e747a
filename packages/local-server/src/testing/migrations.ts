import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join, resolve, sep } from 'node:path'
import type { Client } from '@batonsql/core'
import type * as Migration from 'kysely/migration'
import type { DatabaseAddress } from '../server/server.ts'

/** Supplies migrations to Kysely's `Migrator`. */
export interface MigrationProvider {
  getMigrations(): Promise<Readonly<Record<string, { up(db: never): Promise<void> }>>>
}

/** The folder of drizzle-kit's migrations, or a provider of Kysely's. */
export type Migrations = string | MigrationProvider

const JOURNAL = join('meta', '_journal.json')

/**
 * Returns what a database that is migrated with these migrations is made of; null if that cannot be known.
 * @throws Error if the folder does not exist, or contains no migrations
 */
export async function describeMigrations(migrations: Migrations): Promise<readonly string[] | null> {
  if (typeof migrations === 'string') return describeFolder(resolve(migrations))
  const entries = Object.entries(await migrations.getMigrations()).sort(([a], [b]) => (a < b ? -1 : 1))
  const texts = entries.map(([, migration]) => String(migration['up']))
  // functions with the same text may use different variables, such as the name of an SQL file; the text of a bound function shows
  // none of its code
  if (new Set(texts).size < texts.length || texts.some((text) => text.includes('[native code]'))) return null
  return ['kysely', ...entries.map(([name]) => name), ...texts]
}

function describeFolder(folder: string): readonly string[] {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new Error(
      `useDatabase: the folder of the migrations does not exist: ${folder}; generate it with drizzle-kit, or pass its path relative to the working directory`,
    )
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.sql') || path === JOURNAL)
    .sort()
  // without this, databases would be empty; Drizzle 1 has no journal, and a folder for each migration
  if (!paths.some((path) => path === JOURNAL || path.endsWith(`${sep}migration.sql`)))
    throw new Error(`useDatabase: the folder of the migrations contains none of drizzle-kit: ${folder}`)
  return ['drizzle', ...paths.flatMap((path) => [path, readFileSync(join(folder, path), 'utf8')])]
}

/** Applies migrations to a database with the adapter of their library. */
export async function applyMigrations(migrations: Migrations, config: DatabaseAddress): Promise<void> {
  const apply = typeof migrations === 'string' ? applyFolder : applyProvider
  await apply(migrations as never, config).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error
    const adapter = typeof migrations === 'string' ? 'drizzle-driver' : 'kysely-dialect'
    throw new Error(`install @batonsql/${adapter}, which applies them (${(error as Error).message})`, {
      cause: error,
    })
  })
}

async function applyFolder(folder: string, config: DatabaseAddress): Promise<void> {
  const { createClient } = await import('@batonsql/core')
  const adapter = existsSync(join(folder, JOURNAL))
    ? await import('@batonsql/drizzle-driver/migrator')
    : await import('@batonsql/drizzle-driver/v1/migrator')
  const migrate: (db: { $client: Client }, config: { migrationsFolder: string }) => Promise<unknown> =
    adapter.migrate
  const db = createClient(config)
  try {
    await migrate({ $client: db }, { migrationsFolder: folder })
  } finally {
    await db.close()
  }
}

async function applyProvider(provider: MigrationProvider, config: DatabaseAddress): Promise<void> {
  const { BatonDialect } = await import('@batonsql/kysely-dialect')
  const { Kysely } = await import('kysely')
  // before Kysely 0.29, it was in the main module
  const { Migrator } = await import('kysely/migration').catch(
    async () => (await import('kysely')) as unknown as typeof Migration,
  )
  const db = new Kysely<unknown>({ dialect: new BatonDialect(config) })
  try {
    const { error } = await new Migrator({ db, provider }).migrateToLatest()
    if (error !== undefined) throw error
  } finally {
    await db.destroy()
  }
}
