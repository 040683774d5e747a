import type { DatabaseAddress, Snapshot } from '@batonsql/local-server'
import { databaseUrl } from '@batonsql/platform'
import { type CommandOutput, describeDeletion } from './command-output.ts'
import { confirmDeletion } from './confirm-deletion.ts'
import { control } from './control/control-client.ts'
import type { ControlRequest } from './control/control-server.ts'
import type { DATABASE_OPTIONS, DESTROY_DATABASE_OPTIONS } from './option-table.ts'
import { organizationCommand } from './platform-commands.ts'
import { withServerOrPlatform } from './server-or-platform.ts'

/** A snapshot as both forms of a command receive it. */
type ReceivedSnapshot = Pick<Snapshot, 'name' | 'bytes'> & { readonly createdAt: string }

const toJson = ({ name, bytes, createdAt }: ReceivedSnapshot): ReceivedSnapshot => ({
  name,
  bytes,
  createdAt,
})

/** Keeps a copy of the current state of a database, and prints its name. */
export const createSnapshot = withServerOrPlatform<typeof DATABASE_OPTIONS>({
  onServer: async ({ values, operands, context }) => {
    const [database, name] = operands as [string, string?]
    const args: [string, string?] = name === undefined ? [database] : [database, name]
    const json = await control<ReceivedSnapshot>(values, { method: 'createSnapshot', args }, context)
    return { json, text: json.name }
  },
  onPlatform: organizationCommand(async (platform, { operands, context: { signal } }) => {
    const [database, name] = operands as [string, string?]
    const json = toJson(await platform.databases.createSnapshot(database, { name }, { signal }))
    return { json, text: json.name }
  }),
})

const describeList = (json: readonly ReceivedSnapshot[]): CommandOutput => ({
  json,
  text: [
    ['NAME', 'BYTES', 'CREATED'],
    ...json.map(({ name, bytes, createdAt }) => [name, String(bytes), createdAt]),
  ],
})

export const listSnapshots = withServerOrPlatform<typeof DATABASE_OPTIONS>({
  onServer: async ({ values, operands, context }) => {
    const [database] = operands as [string]
    return describeList(await control(values, { method: 'listSnapshots', args: [database] }, context))
  },
  onPlatform: organizationCommand(async (platform, { operands, context: { signal } }) => {
    const [database] = operands as [string]
    return describeList((await platform.databases.listSnapshots(database, { signal })).map(toJson))
  }),
})

const confirmRestore = confirmDeletion(
  'snapshot restore',
  (name) => `Delete the current content of "${name}"?`,
)

const describeRestored = (name: string, address: DatabaseAddress, snapshot: string): CommandOutput => {
  const { authToken } = address
  const text = `restored ${name} from ${snapshot}`
  return { json: { name, ...address }, text: authToken === undefined ? text : `${text}\ntoken: ${authToken}` }
}

export const restoreSnapshot = withServerOrPlatform<typeof DESTROY_DATABASE_OPTIONS>({
  onServer: async (input) => {
    const [database, name] = input.operands as [string, string]
    await confirmRestore(input)
    const request: ControlRequest = { method: 'restoreSnapshot', args: [database, name] }
    const address = await control<DatabaseAddress>(input.values, request, input.context)
    return describeRestored(database, address, name)
  },
  onPlatform: organizationCommand<typeof DESTROY_DATABASE_OPTIONS>(
    async (platform, { operands, context: { signal } }) => {
      const [database, name] = operands as [string, string]
      const { hostname } = await platform.databases.restoreSnapshot(database, name, { signal })
      return describeRestored(database, { url: databaseUrl(hostname) }, name)
    },
    confirmRestore,
  ),
})

export const deleteSnapshot = withServerOrPlatform<typeof DATABASE_OPTIONS>({
  onServer: async ({ values, operands, context }) => {
    const [database, name] = operands as [string, string]
    await control(values, { method: 'deleteSnapshot', args: [database, name] }, context)
    return describeDeletion(name)
  },
  onPlatform: organizationCommand(async (platform, { operands, context: { signal } }) => {
    const [database, name] = operands as [string, string]
    await platform.databases.deleteSnapshot(database, name, { signal })
    return describeDeletion(name)
  }),
})
