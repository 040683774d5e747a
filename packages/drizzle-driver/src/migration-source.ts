import { checkOptions, setsForeignKeys, splitStatements } from '@batonsql/core/adapter'
import { fileSystem } from './file-system.ts'
import { MigrationError } from './migration-error.ts'

/** A migration as written by drizzle-kit, for platforms without a file system. */
export interface MigrationSource {
  /** Name in errors, such as `0003_add_users`. */
  readonly tag: string
  /** Unmodified text of the `.sql` file: the database stores its hash. */
  readonly sql: string
  /** `when` of its entry in drizzle-kit's `meta/_journal.json`. */
  readonly when: number
}

/** Types of the fields of a `MigrationSource`. */
export const SOURCE_FIELDS = { tag: 'string', sql: 'string', when: 'number' } as const

/** Where the migrations are. */
export type MigrationLocation<Source> =
  | {
      /** Folder written by drizzle-kit. */
      readonly migrationsFolder: string
      readonly migrations?: undefined
    }
  | {
      /** The migrations themselves, in order, for platforms without a file system. */
      readonly migrations: readonly Source[]
      readonly migrationsFolder?: undefined
    }

const OPTIONS = {
  migrationsFolder: 'string',
  migrations: { text: 'an array', accepts: Array.isArray },
  migrationsTable: 'string',
  outOfOrder: ['apply', 'error'],
  transaction: 'boolean',
  onWarning: 'function',
  timeoutMs: 'number',
  dryRun: 'boolean',
} as const

/**
 * Checks the options of `migrate`, which `pendingMigrations` also accepts, and returns the given migrations, or reads them from their
 * folder. @param fields types of a migration's fields
 * @param ownOptions rules of the options that only one Drizzle version has
 * @throws TypeError for an invalid option or migration, or if neither or both places of the migrations are given
 */
export async function findMigrations<Source>(
  config: MigrationLocation<Source>,
  readFolder: (folder: string) => Promise<readonly Source[]>,
  fields: Readonly<Record<keyof Source & string, 'string' | 'number'>>,
  // oxlint-disable-next-line max-params
  ownOptions: { readonly init?: 'boolean' } = {},
): Promise<readonly Source[]> {
  checkOptions<object>(config, { ...OPTIONS, ...ownOptions })
  const { migrations, migrationsFolder } = config
  if (!migrations === !migrationsFolder)
    throw new TypeError('expected either `migrationsFolder` or `migrations`')
  const sources = migrations ?? (await readFolder(migrationsFolder))
  for (const [index, source] of sources.entries())
    for (const [name, type] of Object.entries<string>(fields)) {
      const value = (source as Partial<Record<string, unknown>> | null)?.[name]
      if (typeof value !== type || Number.isNaN(value))
        throw new TypeError(`migrations[${index}].${name} must be a ${type}, not ${typeof value}`)
    }
  return sources
}

export interface Migration {
  readonly tag: string
  readonly when: number
  readonly hash: string
  readonly statements: readonly string[]
}

const BREAKPOINT = '--> statement-breakpoint'

/**
 * Splits a migration into statements. Omits its PRAGMA foreign_keys, which has no effect in a transaction.
 * @throws MigrationError with line and column of unterminated text
 */
export async function parseMigration({ tag, sql, when }: MigrationSource): Promise<Migration> {
  const bytes = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(sql))
  return {
    tag,
    when,
    hash: Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join(''),
    statements: sql
      .split(BREAKPOINT)
      .flatMap((part, index, parts) => {
        try {
          return splitStatements(part).map((statement) => statement.sql)
        } catch (cause) {
          throw unterminatedError(tag, parts.slice(0, index + 1), cause)
        }
      })
      .filter((statement) => !setsForeignKeys(statement)),
  }
}

/** Returns the error of the last part with its line in the file, which `cause` counts from the beginning of that part. */
function unterminatedError(migration: string, parts: readonly string[], cause: unknown): MigrationError {
  const linesBefore = parts.slice(0, -1).join('').split('\n').length - 1
  const message = (cause as Error).message.replace(
    /^line (\d+)/,
    (_, line) => `line ${Number(line) + linesBefore}`,
  )
  return new MigrationError(`migration ${migration}, ${message}`, { migration, cause })
}

/** Reads a folder written by drizzle-kit. @throws Error if its journal or a file cannot be read */
export async function readMigrations(folder: string): Promise<MigrationSource[]> {
  const { readFile } = fileSystem()
  const read = (path: string): Promise<string> =>
    readFile(`${folder}/${path}`, 'utf8').catch((cause: unknown) => {
      throw new Error(`cannot read ${path} in the migrations folder ${folder}`, { cause })
    })
  const journal = await read('meta/_journal.json')
  let entries: { tag: string; when: number }[]
  try {
    entries = (JSON.parse(journal) as { entries: typeof entries }).entries.slice()
  } catch (cause) {
    // such as the marks of a merge conflict
    throw new Error(`${folder}/meta/_journal.json is not a journal of drizzle-kit`, { cause })
  }
  return await Promise.all(
    entries.map(async ({ tag, when }) => ({ tag, when, sql: await read(`${tag}.sql`) })),
  )
}
