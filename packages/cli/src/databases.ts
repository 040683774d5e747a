import { resolve } from 'node:path'
import { databaseUrl } from '@batonsql/platform'
import { checkFile } from './check-file.ts'
import type { CommandInput } from './command-context.ts'
import { control } from './control/control-client.ts'
import type { ControlledDatabase } from './control/control-server.ts'
import type {
  CONFIGURE_DATABASE_OPTIONS,
  CREATE_DATABASE_OPTIONS,
  DATABASE_OPTIONS,
  DESTROY_DATABASE_OPTIONS,
} from './option-table.ts'
import {
  apiCommand,
  type CommandOutput,
  confirmDeletion,
  fieldRows,
  findApiUrl,
  printOutput,
  readSwitch,
} from './platform-api.ts'
import { UsageError } from './usage-error.ts'

/** The two forms of a command, and the options that only a server of this machine has. */
interface ServerOrPlatform<Options extends typeof DATABASE_OPTIONS> {
  readonly onServer: (input: CommandInput<Options>) => Promise<CommandOutput>
  readonly onPlatform: (input: CommandInput<Options>) => Promise<void>
  readonly onlyOnServer?: readonly string[]
}

/** Creates a command that uses a platform API if one is given, and otherwise a running server of this machine. */
function withServerOrPlatform<Options extends typeof DATABASE_OPTIONS>({
  onServer,
  onPlatform,
  onlyOnServer = [],
}: ServerOrPlatform<Options>): (input: CommandInput<Options>) => Promise<void> {
  return async (input) => {
    const { context } = input
    const values: Readonly<Record<string, unknown>> = input.values
    const find = (names: readonly string[]): string | undefined =>
      names.find((name) => values[name] !== undefined)
    const serverOption = find(['port', 'data', ...onlyOnServer])
    const platformOption = find(['api-url', 'token', 'organization'])
    if (serverOption !== undefined && platformOption !== undefined)
      throw new UsageError(
        `baton: --${serverOption} is for a server of this machine, --${platformOption} for a platform API`,
      )
    const usesPlatform = serverOption === undefined && findApiUrl(input.values, context) !== undefined
    if (usesPlatform || platformOption !== undefined) return await onPlatform(input)
    await printOutput(await onServer(input), values['json'] === true, context)
  }
}

/** Prints a line for each database, with its name and URL, and its group in a platform API. */
export const listDatabases = withServerOrPlatform<typeof DATABASE_OPTIONS>({
  onServer: async ({ values, context }) => {
    const json = await control<readonly ControlledDatabase[]>(values, { command: 'list' }, context)
    return { json, text: [['NAME', 'URL'], ...json.map(({ name, url }) => [name, url])] }
  },
  onPlatform: apiCommand(async (platform, { signal }) => {
    const databases = await platform.databases.list({ signal }).toArray()
    const json = databases.map(({ name, group, hostname }) => ({ name, group, url: databaseUrl(hostname) }))
    return {
      json,
      text: [['NAME', 'GROUP', 'URL'], ...json.map(({ name, group, url }) => [name, group, url])],
    }
  }),
})

/** Prints the details of a database. */
export const showDatabase = apiCommand(async (platform, { operands, signal }) => {
  const [name] = operands as [string]
  const database = await platform.databases.get(name, { signal })
  const { deleteProtection, blockReads, blockWrites, sizeLimit } = await platform.databases.getConfiguration(
    name,
    { signal },
  )
  const { dbId: id, group, primaryRegion: location, parent, hostname } = database
  const branchOf = parent?.name ?? null
  const url = databaseUrl(hostname)
  const json = {
    name,
    id,
    group,
    location,
    url,
    branchOf,
    sizeLimit,
    deleteProtection,
    blockReads,
    blockWrites,
  }
  return { json, text: fieldRows(json) }
})

/** Creates a database, waits until it accepts requests, and prints its URL. */
export const createDatabase = withServerOrPlatform<typeof CREATE_DATABASE_OPTIONS>({
  onlyOnServer: ['from-file'],
  onServer: async ({ values, operands, context }) => {
    const [name] = operands as [string]
    const { 'from-file': file, 'from-database': fromDatabase, group } = values
    if (file !== undefined) await checkFile(file)
    const fromFile = file === undefined ? undefined : resolve(file)
    const json = await control<ControlledDatabase>(
      values,
      { command: 'create', name, fromFile, fromDatabase, group },
      context,
    )
    const { url, authToken } = json
    return { json, text: authToken === undefined ? url : `${url}\ntoken: ${authToken}` }
  },
  onPlatform: apiCommand<typeof CREATE_DATABASE_OPTIONS>(async (platform, { values, operands, signal }) => {
    const [name] = operands as [string]
    const original = values['from-database']
    const parentGroup =
      original === undefined ? 'default' : (await platform.databases.get(original, { signal })).group
    const { group = parentGroup } = values
    const seed = original === undefined ? {} : { seed: { type: 'database', name: original } as const }
    const { hostname } = await platform.databases.create({ name, group, ...seed }, { wait: true, signal })
    const url = databaseUrl(hostname)
    return { json: { name, group, url }, text: url }
  }),
})

/** Prints a line for the primary and for each replica of a database. */
export const listInstances = apiCommand(async (platform, { operands, signal }) => {
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
export const configureDatabase = apiCommand<typeof CONFIGURE_DATABASE_OPTIONS>(
  async (platform, { values, operands, signal }) => {
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
    const { sizeLimit, allowAttach, blockReads, blockWrites, deleteProtection, allowedIps } = hasChanges
      ? await databases.updateConfiguration(name, changes, { signal })
      : await databases.getConfiguration(name, { signal })
    const json = { sizeLimit, allowAttach, blockReads, blockWrites, deleteProtection, allowedIps }
    return { json, text: fieldRows(json) }
  },
)

const confirmDatabaseDeletion = confirmDeletion('databases destroy')

const describeDeletion = (name: string): CommandOutput => ({
  json: { name, deleted: true },
  text: `deleted ${name}`,
})

export const destroyDatabase = withServerOrPlatform<typeof DESTROY_DATABASE_OPTIONS>({
  onServer: async (input) => {
    const [name] = input.operands as [string]
    await confirmDatabaseDeletion(input)
    await control(input.values, { command: 'delete', name }, input.context)
    return describeDeletion(name)
  },
  onPlatform: apiCommand<typeof DESTROY_DATABASE_OPTIONS>(async (platform, { operands, signal }) => {
    const [name] = operands as [string]
    await platform.databases.delete(name, { signal })
    return describeDeletion(name)
  }, confirmDatabaseDeletion),
})
