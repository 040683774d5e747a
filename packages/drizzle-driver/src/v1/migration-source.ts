import { fileSystem } from '../file-system.ts'
import type { MigrationSource as Pre1MigrationSource } from '../migration-source.ts'

/** A migration as written by drizzle-kit 1.0: read from its folder, or passed by a program without a file system. */
export interface MigrationSource {
  /** Name of its folder, such as `20260917101500_add_users`. */
  readonly name: string
  /** Unmodified text of its `migration.sql`: the database stores its hash. */
  readonly sql: string
}

/** Adds the time of a migration, with which its name begins. @throws RangeError if it does not */
export function toMigration({ name, sql }: MigrationSource): Pre1MigrationSource {
  const [, year, month = 1, day, hour, minute, second] =
    /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)/.exec(name)?.map(Number) ?? []
  if (year === undefined)
    throw new RangeError(`the name of migration ${name} does not begin with its time, YYYYMMDDHHMMSS`)
  return { tag: name, sql, when: Date.UTC(year, month - 1, day, hour, minute, second) }
}

/** Reads a folder written by drizzle-kit. @throws Error if it was written by a version before 1.0, or cannot be read */
export async function readMigrations(folder: string): Promise<MigrationSource[]> {
  const { access, readdir, readFile } = fileSystem()
  const names = await readdir(folder).catch((cause: unknown) => {
    throw new Error(`cannot read the migrations folder ${folder}`, { cause })
  })
  const hasJournal = await access(`${folder}/meta/_journal.json`).then(
    () => true,
    () => false,
  )
  if (hasJournal)
    throw new Error(`${folder} was written by drizzle-kit before 1.0; run \`drizzle-kit up\` of 1.0`)
  const sources: MigrationSource[] = []
  for (const name of names.sort()) {
    const sql = await readFile(`${folder}/${name}/migration.sql`, 'utf8').catch((cause: unknown) => {
      // a file, or a folder of something else; Drizzle ignores both
      if (/^(?:ENOENT|ENOTDIR|ELOOP)$/.test(String((cause as { code?: unknown }).code))) return null
      throw new Error(`cannot read ${name}/migration.sql in the migrations folder ${folder}`, { cause })
    })
    if (sql !== null) sources.push({ name, sql })
  }
  return sources
}
