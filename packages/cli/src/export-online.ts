import { join } from 'node:path'
import { createClient, exportFile } from '@batonsql/core'
import { databaseUrl, type PlatformClient } from '@batonsql/platform'
import { writeNewFile } from './write-atomically.ts'

/** Lifetime of the token that reads a database. */
const TOKEN_LIFETIME = '1h'
/** Names that are safe as file names. */
const PLAIN_NAME = /^[a-z0-9][a-z0-9_-]*$/i

/** A database on a running server. */
export interface RemoteDatabase {
  readonly platform: PlatformClient
  readonly organization: string
  readonly name: string
  readonly hostname: string
}

/** Lists the databases in all organizations that a client of the platform API can access. */
export async function listAllDatabases(
  platform: PlatformClient,
  organizations: readonly string[],
  signal: AbortSignal,
): Promise<readonly RemoteDatabase[]> {
  const lists = organizations.map(async (organization) => {
    const client = platform.forOrganization(organization)
    const databases = await client.databases.list({ signal }).toArray()
    return databases.map(({ name, hostname }) => ({ platform: client, organization, name, hostname }))
  })
  return (await Promise.all(lists)).flat()
}

/** Returns the path of a database's file in a folder of backups. @throws Error for a name that could lead elsewhere */
export function backupFile(folder: string, { organization, name }: RemoteDatabase): string {
  for (const part of [organization, name])
    if (!PLAIN_NAME.test(part)) throw new Error(`${JSON.stringify(part)} is not a valid file name`)
  return join(folder, organization, `${name}.db`)
}

/** Writes a snapshot of a database on a running server to a new SQLite file. Writes continue. */
export async function exportOnline(
  database: RemoteDatabase,
  file: string,
  signal: AbortSignal,
): Promise<void> {
  const { platform, name, hostname } = database
  const options = { authorization: 'read-only', expiration: TOKEN_LIFETIME, signal } as const
  const authToken = await platform.databases.createToken(name, options)
  const db = createClient({ url: databaseUrl(hostname), authToken })
  try {
    await writeNewFile(file, exportFile(db, { signal }))
  } finally {
    await db.close()
  }
}
