import { resolve } from 'node:path'
import { type DatabaseConfiguration, databaseUrl } from '@batonsql/platform'
import { checkFile } from './check-file.ts'
import type { CommandInput } from './command-context.ts'
import { type CommandOutput, describeDeletion, formatFields } from './command-output.ts'
import { confirmDeletion } from './confirm-deletion.ts'
import { databaseCommand, type HostedDatabase } from './database-host.ts'
import { fillFromDump } from './fill-from-dump.ts'
import type {
  CONFIGURE_DATABASE_OPTIONS,
  CREATE_DATABASE_OPTIONS,
  DESTROY_DATABASE_OPTIONS,
  FORK_OPTIONS,
} from './option-table.ts'
import { organizationCommand } from './platform-commands.ts'
import { readSwitch } from './read-choice.ts'
import { UsageError } from './usage-error.ts'

export const listDatabases = databaseCommand({
  run: async (host) => {
    const json = await host.list()
    if (json.every(({ group }) => group === undefined))
      return { json, text: [['NAME', 'URL'], ...json.map(({ name, url }) => [name, url])] }
    return {
      json,
      text: [['NAME', 'GROUP', 'URL'], ...json.map(({ name, group = '', url }) => [name, group, url])],
    }
  },
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

/** Returns the URL of a new database and, on a local server that requires tokens, a token. */
const describeCreated = (json: HostedDatabase): CommandOutput => ({
  json,
  text: json.authToken === undefined ? json.url : `${json.url}\ntoken: ${json.authToken}`,
})

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

export const createDatabase = databaseCommand<typeof CREATE_DATABASE_OPTIONS>({
  onlyOnServer: ['from-file'],
  run: async (host, { values, operands, context }) => {
    const [name] = operands as [string]
    const { 'from-dump': dumpFile, 'from-file': file, 'from-database': fromDatabase, group } = values
    await checkSources(values)
    const fromFile = file === undefined ? undefined : resolve(file)
    if (dumpFile === undefined)
      return describeCreated(await host.create({ name, fromFile, fromDatabase, group }))
    const target = await host.createToFill({ name, group })
    await fillFromDump(target, dumpFile, context)
    return describeCreated(target.database)
  },
})

/** Copies a database, or one of its snapshots; by default, the name of the copy is that of the database with `-copy`. */
export const forkDatabase = databaseCommand<typeof FORK_OPTIONS>({
  run: async (host, { values, operands }) => {
    const [fromDatabase, name = `${fromDatabase}-copy`] = operands as [string, string?]
    const { snapshot: fromSnapshot, group } = values
    return describeCreated(await host.create({ name, fromDatabase, fromSnapshot, group }))
  },
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

export const destroyDatabase = databaseCommand<typeof DESTROY_DATABASE_OPTIONS>({
  confirm: confirmDeletion('databases destroy'),
  run: async (host, { operands }) => {
    const [name] = operands as [string]
    await host.delete(name)
    return describeDeletion(name)
  },
})
