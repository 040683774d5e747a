import { splitStatements } from '@batonsql/core'
import { fileSystem } from './file-system.ts'

/** A migration as drizzle-kit writes it, for places without a file system. */
export interface MigrationSource {
  /** Name in errors, such as `0003_add_users`. */
  readonly tag: string
  /** Text of the `.sql` file, as it is: its hash is what the database remembers. */
  readonly sql: string
  /** `when` of its entry in drizzle-kit's `meta/_journal.json`. */
  readonly when: number
}

/** Where migrations are. */
export type MigrationsAt<Source> =
  | {
      /** Folder that drizzle-kit writes. */
      readonly migrationsFolder: string
      readonly migrations?: undefined
    }
  | {
      /** The migrations themselves, in order, for places without a file system. */
      readonly migrations: readonly Source[]
      readonly migrationsFolder?: undefined
    }

/** @throws TypeError when they are nowhere, or in two places */
export async function findMigrations<Source>(
  { migrations, migrationsFolder }: MigrationsAt<Source>,
  readFolder: (folder: string) => Promise<readonly Source[]>,
): Promise<readonly Source[]> {
  if ((migrations === undefined) === (migrationsFolder === undefined))
    throw new TypeError('expected either `migrationsFolder` or `migrations`')
  return migrations ?? (await readFolder(migrationsFolder))
}

/** A migration ready to be applied. */
export interface Migration {
  readonly tag: string
  readonly when: number
  readonly hash: string
  readonly statements: readonly string[]
}

const SETS_FOREIGN_KEYS = /^\s*pragma\s+foreign_keys\s*[=(]/i

/** Takes a migration apart. Its own switching of foreign keys is left out: inside a transaction it would do nothing. */
export async function parseMigration({ tag, sql, when }: MigrationSource): Promise<Migration> {
  const bytes = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(sql))
  return {
    tag,
    when,
    hash: Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join(''),
    statements: sql
      .split('--> statement-breakpoint')
      .flatMap((part) => splitStatements(part).map((statement) => statement.sql))
      .filter((statement) => !SETS_FOREIGN_KEYS.test(statement)),
  }
}

/** Reads the folder that drizzle-kit writes. @throws Error when there is no journal in it, or a file is missing */
export async function readMigrations(folder: string): Promise<MigrationSource[]> {
  const { readFile } = fileSystem()
  const read = (path: string): Promise<string> =>
    readFile(`${folder}/${path}`, 'utf8').catch((cause: unknown) => {
      throw new Error(`cannot read ${path} in the migrations folder ${folder}`, { cause })
    })
  const { entries } = JSON.parse(await read('meta/_journal.json')) as {
    entries: { tag: string; when: number }[]
  }
  return await Promise.all(
    entries.map(async ({ tag, when }) => ({ tag, when, sql: await read(`${tag}.sql`) })),
  )
}
