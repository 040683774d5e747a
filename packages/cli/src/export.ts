import { resolve } from 'node:path'
import { exportFile, HttpError } from '@batonsql/core'
import { type CommandInput, print } from './command-context.ts'
import { control, NotRunningError } from './control/control-client.ts'
import type { ControlRequest } from './control/control-server.ts'
import { isUrl, openDatabase, readTarget } from './database-address.ts'
import { backupFile, exportOnline, listAllDatabases, type RemoteDatabase } from './export-online.ts'
import { loadServer } from './load-server.ts'
import type { EXPORT_OPTIONS } from './option-table.ts'
import { createAccountClient, findApiUrl } from './platform-commands.ts'
import { UsageError } from './usage-error.ts'
import { createFolderOf, writeNewFile } from './write-atomically.ts'

type Input = CommandInput<typeof EXPORT_OPTIONS>

const USAGE =
  'baton export: pass [URL|NAME] FILE.db, or --all DIR with --api-url URL; with --data DIR, pass NAME FILE.db'

/** Exports databases of a running server, or of a data directory, to SQLite files. */
export async function runExport(input: Input): Promise<void> {
  const { values, operands, context } = input
  const { all, data, organization } = values
  const [name, file] = operands
  // a database and its file, or --all
  if (all === undefined ? operands.length === 0 : operands.length > 0) throw new UsageError(USAGE)
  if (data !== undefined) {
    if (name === undefined || file === undefined) throw new UsageError(USAGE)
    return await exportFromDirectory({ name, file, data }, context)
  }
  const hasApi = findApiUrl(values, context) !== undefined
  const usesApi = hasApi && !isUrl(name ?? '') && file !== undefined
  if (all !== undefined || organization !== undefined || usesApi) return await exportFromPlatform(input)
  await exportFromDatabase(input)
}

/** Exports a database of a data directory, whether or not a server is using it. */
async function exportFromDirectory(
  { name, file, data }: { readonly name: string; readonly file: string; readonly data: string },
  context: Input['context'],
): Promise<void> {
  const server = await loadServer(() => import('@batonsql/local-server'))
  await createFolderOf(file)
  await server.exportFromDirectory(data, name, file).catch(async (error: unknown) => {
    const { message } = error as Error
    if (!/is in use by/.test(message)) throw error
    const request: ControlRequest = { method: 'exportDatabase', args: [name, resolve(file)] }
    await control({ data }, request, context).catch((controlError: unknown) => {
      if (!(controlError instanceof NotRunningError)) throw controlError
      // a program that calls startLocalServer, or a server of another user
      const remedy =
        'It is not a `baton dev` of this user: export with the URL of the database instead of --data.'
      throw new Error(`${message}\n${remedy}`, { cause: controlError })
    })
  })
  await print(context, `exported ${name} to ${file}\n`)
}

/** Exports a database that is given by its URL, or by its name on the local server. */
async function exportFromDatabase({ values, operands, context }: Input): Promise<void> {
  const { target, remaining } = readTarget(operands, 1, context)
  const [file] = remaining
  if (file === undefined) throw new UsageError(USAGE)
  const db = openDatabase(target, values, context)
  try {
    await writeNewFile(file, exportFile(db, { signal: context.signal }))
  } catch (error) {
    if (!(error instanceof HttpError) || error.status !== 404) throw error
    throw new Error(
      `${error.message}\nThe database does not exist, or its server cannot export files: \`baton dump\` writes it as SQL.`,
      { cause: error },
    )
  } finally {
    await db.close()
  }
  await print(context, `exported ${operands.length === 1 ? 'the database' : target} to ${file}\n`)
}

async function exportFromPlatform({ values, operands, context }: Input): Promise<void> {
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
