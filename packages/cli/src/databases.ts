import { databaseUrl } from '@batonsql/platform'
import type { CONFIGURE_DATABASE_OPTIONS, CREATE_DATABASE_OPTIONS, DESTROY_OPTIONS } from './option-table.ts'
import { apiCommand, confirmDeletion, fieldRows, readSwitch } from './platform-api.ts'

/** Prints a line for each database, with name, group and URL. */
export const listDatabases = apiCommand(async (platform, { signal }) => {
  const json = (await platform.databases.list({ signal }).toArray()).map(({ name, group, hostname }) => ({
    name,
    group,
    url: databaseUrl(hostname),
  }))
  return { json, text: json.map(({ name, group, url }) => [name, group, url]) }
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
export const createDatabase = apiCommand<typeof CREATE_DATABASE_OPTIONS>(
  async (platform, { values, operands, signal }) => {
    const [name] = operands as [string]
    const { group = 'default' } = values
    const { hostname } = await platform.databases.create({ name, group }, { wait: true, signal })
    const url = databaseUrl(hostname)
    return { json: { name, group, url }, text: url }
  },
)

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

export const destroyDatabase = apiCommand<typeof DESTROY_OPTIONS>(async (platform, { operands, signal }) => {
  const [name] = operands as [string]
  await platform.databases.delete(name, { signal })
  return { json: { name, deleted: true }, text: `deleted ${name}` }
}, confirmDeletion('databases destroy'))
