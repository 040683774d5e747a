import { resolve } from 'node:path'
import type { DatabaseAddress, NewDatabaseOptions } from '@batonsql/local-server'
import { type DatabaseConfiguration, databaseUrl, type PlatformClient } from '@batonsql/platform'
import { checkFile } from './check-file.ts'
import type { CommandInput } from './command-context.ts'
import { type CommandOutput, describeDeletion, formatFields } from './command-output.ts'
import { confirmDeletion } from './confirm-deletion.ts'
import { control } from './control/control-client.ts'
import type { ControlRequest, ListedDatabase } from './control/control-server.ts'
import { fillFromDump } from './fill-from-dump.ts'
import type {
  CONFIGURE_DATABASE_OPTIONS,
  CREATE_DATABASE_OPTIONS,
  DATABASE_OPTIONS,
  DESTROY_DATABASE_OPTIONS,
  FORK_OPTIONS,
} from './option-table.ts'
import { organizationCommand } from './platform-commands.ts'
import { readSwitch } from './read-choice.ts'
import { withServerOrPlatform } from './server-or-platform.ts'
import { UsageError } from './usage-error.ts'

export const listDatabases = withServerOrPlatform<typeof DATABASE_OPTIONS>({
  onServer: async ({ values, context }) => {
    const json = await control<readonly ListedDatabase[]>(values, { method: 'list' }, context)
    return { json, text: [['NAME', 'URL'], ...json.map(({ name, url }) => [name, url])] }
  },
  onPlatform: organizationCommand(async (platform, { context: { signal } }) => {
    const databases = await platform.databases.list({ signal }).toArray()
    const json = databases.map(({ name, group, hostname }) => ({ name, group, url: databaseUrl(hostname) }))
    return {
      json,
      text: [['NAME', 'GROUP', 'URL'], ...json.map(({ name, group, url }) => [name, group, url])],
    }
  }),
})

export const showDatabase = organizationCommand(async (platform, { operands, context: { signal } }) => {
  const [name] = operands as [string]
  const database = await platform.databases.get(name, { signal })
  const configuration = await platform.databases.getConfiguration(name, { signal })
  const { dbId: id, group, primaryRegion: location, parent, hostname } = database
  const branchOf = parent?.name ?? null
  const url = databaseUrl(hostname)
  const json = { name, id, group, location, url, branchOf, ...selectSettings(configuration) }
  return { json, text: formatFields(json) }
})

/** Returns the settings of a database that `databases configure` can change. */
function selectSettings(configuration: DatabaseConfiguration) {
  const { sizeLimit, allowAttach, blockReads, blockWrites, deleteProtection, allowedIps } = configuration
  return { sizeLimit, allowAttach, blockReads, blockWrites, deleteProtection, allowedIps }
}

/** A database to create. */
interface NewDatabase
  extends Optional<NewDatabaseOptions, 'fromFile' | 'fromDatabase' | 'fromSnapshot' | 'group'> {
  readonly name: string
}
type Optional<T, Names extends keyof T> = { readonly [Name in Names]?: T[Name] | undefined }

/** What is printed for a new database. */
interface CreatedDatabase extends CommandOutput {
  readonly json: DatabaseAddress & { readonly name: string }
}

async function createOnServer(
  { values, context }: CommandInput<typeof DATABASE_OPTIONS>,
  { name, ...options }: NewDatabase,
): Promise<CreatedDatabase> {
  // JSON omits what is undefined
  const request: ControlRequest = { method: 'createDatabase', args: [name, options as NewDatabaseOptions] }
  const address = await control<DatabaseAddress>(values, request, context)
  const { url, authToken } = address
  return { json: { name, ...address }, text: authToken === undefined ? url : `${url}\ntoken: ${authToken}` }
}

/** Creates a database with a platform API. @param wait whether to wait until it accepts requests */
async function createOnPlatform(
  platform: PlatformClient,
  { name, fromDatabase, fromSnapshot, group: requestedGroup }: NewDatabase,
  { signal, wait = true }: { readonly signal?: AbortSignal; readonly wait?: boolean },
): Promise<CreatedDatabase> {
  const { databases } = platform
  const group =
    requestedGroup ??
    (fromDatabase === undefined ? 'default' : (await databases.get(fromDatabase, { signal })).group)
  const timestamp =
    fromDatabase === undefined || fromSnapshot === undefined
      ? undefined
      : await findSnapshotTime(platform, { database: fromDatabase, snapshot: fromSnapshot }, signal)
  const seed =
    fromDatabase === undefined ? undefined : ({ type: 'database', name: fromDatabase, timestamp } as const)
  const { hostname } = await databases.create({ name, group, seed }, { wait, signal })
  const json = { name, group, url: databaseUrl(hostname) }
  return { json, text: json.url }
}

/** Returns the time of a snapshot, by which the platform API identifies it. @throws Error if it does not exist */
async function findSnapshotTime(
  { databases }: PlatformClient,
  { database, snapshot: name }: { readonly database: string; readonly snapshot: string },
  signal: AbortSignal | undefined,
): Promise<string> {
  const snapshots = await databases.listSnapshots(database, { signal })
  const snapshot = snapshots.find((candidate) => candidate.name === name)
  if (snapshot === undefined) throw new Error(`snapshot "${name}" of database "${database}" does not exist`)
  return snapshot.createdAt
}

/** Checks the options that choose the content. @throws UsageError if they exclude each other, or a file cannot be read */
async function checkSources({
  'from-dump': dumpFile,
  'from-file': file,
  'from-database': database,
}: CommandInput<typeof CREATE_DATABASE_OPTIONS>['values']): Promise<void> {
  if (dumpFile !== undefined && (file ?? database) !== undefined)
    throw new UsageError('baton databases create: --from-dump excludes --from-file and --from-database')
  if (file !== undefined && database !== undefined)
    throw new UsageError('baton databases create: --from-file excludes --from-database')
  if (file !== undefined) await checkFile(file)
  if (dumpFile !== undefined && dumpFile !== '-') await checkFile(dumpFile)
}

/** Creates a database and prints its URL and, on a local server that requires tokens, a token. */
export const createDatabase = withServerOrPlatform<typeof CREATE_DATABASE_OPTIONS>({
  onlyOnServer: ['from-file'],
  onServer: async (input) => {
    const { values, context } = input
    const [name] = input.operands as [string]
    const { 'from-dump': dumpFile, 'from-file': file, 'from-database': fromDatabase, group } = values
    await checkSources(values)
    const fromFile = file === undefined ? undefined : resolve(file)
    if (dumpFile === undefined) return await createOnServer(input, { name, fromFile, fromDatabase, group })
    // not interrupted, so that `fillFromDump` knows that the database exists, and can delete it
    const uninterrupted = { ...context, signal: new AbortController().signal }
    const output = await createOnServer({ ...input, context: uninterrupted }, { name, group })
    const { url, authToken } = output.json
    const database = {
      name,
      locate: async () => ({ url, authToken }),
      delete: async () => await control(values, { method: 'deleteDatabase', args: [name] }, uninterrupted),
    }
    await fillFromDump(database, dumpFile, context)
    return output
  },
  onPlatform: organizationCommand<typeof CREATE_DATABASE_OPTIONS>(
    async (platform, { values, operands, context }) => {
      const { signal } = context
      const [name] = operands as [string]
      const { 'from-dump': dumpFile, 'from-database': fromDatabase, group } = values
      await checkSources(values)
      if (dumpFile === undefined)
        return await createOnPlatform(platform, { name, fromDatabase, group }, { signal })
      // not interrupted, so that `fillFromDump` knows that the database exists, and can delete it
      const output = await createOnPlatform(platform, { name, group }, { wait: false })
      const { url } = output.json
      const database = {
        name,
        locate: async () => {
          await platform.databases.waitUntilReady(name, { signal })
          return { url, authToken: platform.databaseToken({ database: name, expiration: '1h' }) }
        },
        delete: async () => await platform.databases.delete(name),
      }
      await fillFromDump(database, dumpFile, context)
      return output
    },
  ),
})

/** Returns the copy that a command describes; by default, its name is that of the database with `-copy`. */
function readFork(
  { snapshot: fromSnapshot, group }: CommandInput<typeof FORK_OPTIONS>['values'],
  operands: readonly string[],
): NewDatabase {
  const [fromDatabase, name = `${fromDatabase}-copy`] = operands as [string, string?]
  return { name, fromDatabase, fromSnapshot, group }
}

/** Copies a database, or one of its snapshots, and prints the URL of the copy and, on a local server that requires tokens, a token. */
export const forkDatabase = withServerOrPlatform<typeof FORK_OPTIONS>({
  onServer: async (input) => await createOnServer(input, readFork(input.values, input.operands)),
  onPlatform: organizationCommand<typeof FORK_OPTIONS>(
    async (platform, { values, operands, context: { signal } }) =>
      await createOnPlatform(platform, readFork(values, operands), { signal }),
  ),
})

export const listInstances = organizationCommand(async (platform, { operands, context: { signal } }) => {
  const [name] = operands as [string]
  const instances = await platform.databases.listInstances(name, { signal })
  const json = instances.map(({ region, type, hostname }) => ({
    location: region,
    type,
    url: databaseUrl(hostname),
  }))
  return {
    json,
    text: [['LOCATION', 'TYPE', 'URL'], ...json.map(({ location, type, url }) => [location, type, url])],
  }
})

/** Changes settings of a database, and prints all of them. */
export const configureDatabase = organizationCommand<typeof CONFIGURE_DATABASE_OPTIONS>(
  async (platform, { values, operands, context: { signal } }) => {
    const [name] = operands as [string]
    const changes = {
      sizeLimit: values['size-limit'],
      allowAttach: readSwitch('allow-attach', values['allow-attach']),
      blockReads: readSwitch('block-reads', values['block-reads']),
      blockWrites: readSwitch('block-writes', values['block-writes']),
      deleteProtection: readSwitch('delete-protection', values['delete-protection']),
      allowedIps: values['allowed-ips']
        ?.split(',')
        .map((address) => address.trim())
        .filter((address) => address !== ''),
    }
    const hasChanges = Object.values(changes).some((change) => change !== undefined)
    const { databases } = platform
    const configuration = hasChanges
      ? await databases.updateConfiguration(name, changes, { signal })
      : await databases.getConfiguration(name, { signal })
    const json = selectSettings(configuration)
    return { json, text: formatFields(json) }
  },
)

const confirmDatabaseDeletion = confirmDeletion('databases destroy')

export const destroyDatabase = withServerOrPlatform<typeof DESTROY_DATABASE_OPTIONS>({
  onServer: async (input) => {
    const [name] = input.operands as [string]
    await confirmDatabaseDeletion(input)
    await control(input.values, { method: 'deleteDatabase', args: [name] }, input.context)
    return describeDeletion(name)
  },
  onPlatform: organizationCommand<typeof DESTROY_DATABASE_OPTIONS>(
    async (platform, { operands, context: { signal } }) => {
      const [name] = operands as [string]
      await platform.databases.delete(name, { signal })
      return describeDeletion(name)
    },
    confirmDatabaseDeletion,
  ),
})
