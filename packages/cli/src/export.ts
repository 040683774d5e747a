import { type CommandInput, print } from './command-context.ts'
import { loadServer } from './load-server.ts'
import { backupFile, exportOnline, listAllDatabases, type RemoteDatabase } from './online-export.ts'
import type { EXPORT_OPTIONS } from './option-table.ts'
import { createAccountClient } from './platform-api.ts'
import { UsageError } from './usage-error.ts'

type Input = CommandInput<typeof EXPORT_OPTIONS>

const USAGE =
  'baton export: pass NAME FILE.db, or --all DIR; with --api-url URL for a running server, or with --data DIR for a stopped one'

/** Exports databases of a running server, or of a data directory, to SQLite files. */
export async function runExport(input: Input): Promise<void> {
  const { values, operands } = input
  const [name, file] = operands
  // a database and its file, or --all
  if (operands.length !== (values.all === undefined ? 2 : 0)) throw new UsageError(USAGE)
  if (values.data === undefined) return await exportFromServer(input)
  if (name === undefined || file === undefined) throw new UsageError(USAGE)
  await exportOffline(name, file, values.data)
}

async function exportOffline(name: string, file: string, directory: string): Promise<void> {
  const { exportFromDirectory } = await loadServer(() => import('@batonsql/local-server'))
  await exportFromDirectory(directory, name, file).catch((error: unknown) => {
    const { message } = error as Error
    if (!/is in use by/.test(message)) throw error
    const remedy =
      'While the server runs: baton export NAME FILE.db --api-url URL, or --all DIR --api-url URL'
    throw new Error(`${message}\n${remedy}`, { cause: error })
  })
  console.log(`exported ${name} to ${file}`)
}

async function exportFromServer({ values, operands, context }: Input): Promise<void> {
  const { signal } = context
  const platform = createAccountClient(values, context)
  const organizations =
    values.organization === undefined
      ? (await platform.organizations.list({ signal })).map(({ slug }) => slug)
      : [values.organization]
  const databases = await listAllDatabases(platform, organizations, signal)
  const [name, file] = operands
  if (values.all !== undefined) return await exportAll(databases, values.all, context)
  const matches = databases.filter((database) => database.name === name)
  const [match, ...others] = matches
  if (file === undefined) throw new UsageError(USAGE)
  if (match === undefined) throw new Error(`database "${name}" does not exist`)
  if (others.length > 0)
    throw new UsageError(
      `baton export: choose an organization with --organization: ${matches.map(({ organization }) => organization).join(', ')}`,
    )
  await exportOnline(match, file, signal)
  await print(context, `exported ${name} to ${file}\n`)
}

/** Exports all databases, even if some fail. @throws Error that names those that failed */
async function exportAll(
  databases: readonly RemoteDatabase[],
  folder: string,
  context: Input['context'],
): Promise<void> {
  const failures: string[] = []
  for (const database of databases) {
    const name = `${database.organization}/${database.name}`
    try {
      const file = backupFile(folder, database)
      await exportOnline(database, file, context.signal)
      await print(context, `exported ${name} to ${file}\n`)
    } catch (error) {
      context.signal.throwIfAborted()
      failures.push(`${name}: ${(error as Error).message}`)
    }
  }
  if (failures.length > 0)
    throw new Error(
      `${failures.length} of ${databases.length} databases were not exported:\n${failures.join('\n')}`,
    )
}
