import type { UsageFigures } from '@batonsql/platform'
import { organizationCommand } from './platform-commands.ts'

const TITLES = ['NAME', 'ROWS READ', 'ROWS WRITTEN', 'BYTES STORED', 'BYTES SYNCED']

/** Prints this month's usage: of one database, or of each database in the organization and in total. */
export const showUsage = organizationCommand(async (platform, { operands, context: { signal } }) => {
  const [name] = operands
  if (name !== undefined) {
    const { total } = await platform.databases.usage(name, { signal })
    return { json: { name, ...selectFigures(total) }, text: [TITLES, row(name, total)] }
  }
  const databases = await platform.databases.list({ signal }).toArray()
  const findName = (id: string): string =>
    databases.find(({ dbId }) => dbId === id)?.name ?? `${id} (deleted)`
  const usage = await platform.organizations.usage({ signal })
  const databaseUsage = usage.databases.map(({ uuid, total }) => ({ name: findName(uuid), total }))
  return {
    json: {
      ...selectFigures(usage.usage),
      databases: databaseUsage.map((entry) => ({ name: entry.name, ...selectFigures(entry.total) })),
    },
    text: [TITLES, ...databaseUsage.map((entry) => row(entry.name, entry.total)), row('total', usage.usage)],
  }
})

function selectFigures(usage: UsageFigures | null) {
  const { rowsRead = 0, rowsWritten = 0, storageBytes = 0, bytesSynced = 0 } = usage ?? {}
  return { rowsRead, rowsWritten, storageBytes, bytesSynced }
}

const row = (name: string, usage: UsageFigures | null): string[] => [
  name,
  ...Object.values(selectFigures(usage)).map(String),
]
