import { describeDeletion } from './command-output.ts'
import { confirmDeletion } from './confirm-deletion.ts'
import { databaseCommand } from './database-host.ts'
import type { DESTROY_DATABASE_OPTIONS } from './option-table.ts'

/** Keeps a copy of the current state of a database, and prints its name. */
export const createSnapshot = databaseCommand({
  run: async (host, { operands }) => {
    const [database, name] = operands as [string, string?]
    const json = await host.createSnapshot(database, name)
    return { json, text: json.name }
  },
})

export const listSnapshots = databaseCommand({
  run: async (host, { operands }) => {
    const [database] = operands as [string]
    const json = await host.listSnapshots(database)
    const rows = json.map(({ name, bytes, createdAt }) => [name, String(bytes), createdAt])
    return { json, text: [['NAME', 'BYTES', 'CREATED'], ...rows] }
  },
})

export const restoreSnapshot = databaseCommand<typeof DESTROY_DATABASE_OPTIONS>({
  confirm: confirmDeletion('snapshot restore', (name) => `Delete the current content of "${name}"?`),
  run: async (host, { operands }) => {
    const [name, snapshot] = operands as [string, string]
    const address = await host.restoreSnapshot(name, snapshot)
    const { authToken } = address
    const text = `restored ${name} from ${snapshot}`
    return {
      json: { name, ...address },
      text: authToken === undefined ? text : `${text}\ntoken: ${authToken}`,
    }
  },
})

export const deleteSnapshot = databaseCommand({
  run: async (host, { operands }) => {
    const [database, name] = operands as [string, string]
    await host.deleteSnapshot(database, name)
    return describeDeletion(name)
  },
})
