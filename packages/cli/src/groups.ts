import { describeDeletion, formatFields } from './command-output.ts'
import { confirmDeletion } from './confirm-deletion.ts'
import type { CONFIGURE_GROUP_OPTIONS, CREATE_GROUP_OPTIONS, DESTROY_OPTIONS } from './option-table.ts'
import { organizationCommand } from './platform-commands.ts'
import { readSwitch } from './read-choice.ts'

/** Prints a line for each group, with its name and locations, the primary first. */
export const listGroups = organizationCommand(async (platform, { context: { signal } }) => {
  const json = (await platform.groups.list({ signal })).map(({ name, primary, locations = [] }) => ({
    name,
    primary,
    locations: [primary, ...locations.filter((code) => code !== primary)],
  }))
  return {
    json,
    text: [['NAME', 'LOCATIONS'], ...json.map(({ name, locations }) => [name, locations.join(', ')])],
  }
})

export const createGroup = organizationCommand<typeof CREATE_GROUP_OPTIONS>(
  async (platform, { values, operands, context: { signal } }) => {
    const [name] = operands as [string]
    const { location = 'local' } = values
    await platform.groups.create({ name, location }, { signal })
    return { json: { name, primary: location }, text: `created ${name} in ${location}` }
  },
)

/** Adds a location to a group, and waits until its replicas are ready. */
export const addLocation = organizationCommand(async (platform, { operands, context: { signal } }) => {
  const [name, location] = operands as [string, string]
  await platform.groups.addLocation(name, location, { wait: true, signal })
  return { json: { name, location, added: true }, text: `added ${location} to ${name}` }
})

export const removeLocation = organizationCommand(async (platform, { operands, context: { signal } }) => {
  const [name, location] = operands as [string, string]
  await platform.groups.removeLocation(name, location, { signal })
  return { json: { name, location, removed: true }, text: `removed ${location} from ${name}` }
})

export const configureGroup = organizationCommand<typeof CONFIGURE_GROUP_OPTIONS>(
  async (platform, { values, operands, context: { signal } }) => {
    const [name] = operands as [string]
    const change = readSwitch('delete-protection', values['delete-protection'])
    const { groups } = platform
    const { deleteProtection } =
      change === undefined
        ? await groups.getConfiguration(name, { signal })
        : await groups.updateConfiguration(name, { deleteProtection: change }, { signal })
    const json = { deleteProtection }
    return { json, text: formatFields(json) }
  },
)

export const destroyGroup = organizationCommand<typeof DESTROY_OPTIONS>(
  async (platform, { operands, context: { signal } }) => {
    const [name] = operands as [string]
    await platform.groups.delete(name, { signal })
    return describeDeletion(name)
  },
  confirmDeletion('groups destroy'),
)
