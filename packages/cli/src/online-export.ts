import { lstat, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { databaseUrl, type PlatformClient } from '@batonsql/platform'

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

/** Writes a snapshot of a database on a running server to a new SQLite file that only this user can read. Writes continue. */
export async function exportOnline(
  database: RemoteDatabase,
  file: string,
  signal: AbortSignal,
): Promise<void> {
  const { platform, name, hostname } = database
  const options = { authorization: 'read-only', expiration: TOKEN_LIFETIME, signal } as const
  const token = await platform.databases.createToken(name, options)
  const url = `${databaseUrl(hostname)}/export/1`
  const response = await fetch(url, { headers: { authorization: `Bearer ${token}` }, signal })
  if (response.status !== 200 || response.body === null)
    throw new Error(`GET ${url} returned HTTP ${response.status}: ${await response.text()}`)
  await writeNew(file, Readable.fromWeb(response.body))
}

/** Creates a file completely, or not at all, even if the process is killed. @throws Error if the file exists */
async function writeNew(file: string, content: Readable): Promise<void> {
  const temporaryFile = `${file}.${process.pid}.unfinished`
  content.on('error', () => {}) // ignored until the content is read, which throws the error again
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await checkAbsent(file)
    const handle = await open(temporaryFile, 'w', 0o600)
    try {
      await handle.writeFile(content)
      await handle.sync()
    } finally {
      await handle.close()
    }
    // another export may have created it in the meantime
    await checkAbsent(file)
    await rename(temporaryFile, file)
  } catch (error) {
    content.destroy()
    await rm(temporaryFile, { force: true })
    throw error
  }
}

async function checkAbsent(file: string): Promise<void> {
  const existing = await lstat(file).catch(() => null)
  if (existing !== null) throw new Error(`${file} already exists`)
}
