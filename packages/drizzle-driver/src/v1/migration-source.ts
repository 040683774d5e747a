import { fileSystem } from '../file-system.ts'
import type { MigrationSource as Pre1MigrationSource } from '../migration-source.ts'

/** A migration as written by drizzle-kit 1.0, for platforms without a file system. */
export interface MigrationSource {
  /** Name of its folder, such as `20260917101500_add_users`. */
  readonly name: string
  /** Unmodified text of its `migration.sql`: the database stores its hash. */
  readonly sql: string
}

/** Adds the time of a migration, which its name contains. @throws RangeError if it does not */
export function toMigration({ name, sql }: MigrationSource): Pre1MigrationSource {
  const [, year, month, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)/.exec(name)?.map(Number) ?? []
  if (year === undefined)
    throw new RangeError(`the name of migration ${name} does not begin with its time, YYYYMMDDHHMMSS`)
  return { tag: name, sql, when: Date.UTC(year, (month ?? 1) - 1, day, hour, minute, second) }
}

/** Reads a folder written by drizzle-kit. @throws Error if it was written by a version before 1.0, or cannot be read */
export async function readMigrations(folder: string): Promise<MigrationSource[]> {
  const { readdir, readFile } = fileSystem()
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
    throw new Error(`cannot read the migrations folder ${folder}`, { cause })
  })
  const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
  const sources: MigrationSource[] = []
  for (const name of names.sort()) {
    if (name === 'meta' && (await readdir(`${folder}/meta`)).includes('_journal.json'))
      throw new Error(`${folder} was written by drizzle-kit before 1.0; run \`drizzle-kit up\` of 1.0`)
    const sql = await readFile(`${folder}/${name}/migration.sql`, 'utf8').catch((cause: unknown) => {
      if ((cause as { code?: string }).code === 'ENOENT') return null
      throw new Error(`cannot read ${name}/migration.sql in the migrations folder ${folder}`, { cause })
    })
    if (sql !== null) sources.push({ name, sql })
  }
  return sources
}
