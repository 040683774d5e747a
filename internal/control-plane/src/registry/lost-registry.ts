import { join } from 'node:path'
import { getFileSize } from '@batonsql/server-common/backend'
import { isUuid, listFolder } from '@batonsql/server-common/base'

/** Whether the file of a registry has no content: it does not exist, or is empty and has no WAL. */
export function isEmptyFile(path: string): boolean {
  return getFileSize(path) + getFileSize(`${path}-wal`) === 0
}

/**
 * Called if the registry of a data directory has no databases. If the directory has some, the registry was lost: a fresh one would
 * have other names, keys and tokens, and the databases would be set aside.
 * @throws Error that says what to do
 */
export async function rejectLostRegistry(directory: string, registryFile: string): Promise<void> {
  const folders = await findDatabaseFolders(directory)
  const [example] = folders
  if (example === undefined) return
  const registry = join(directory, registryFile)
  const count = folders.length === 1 ? 'a database' : `${folders.length} databases, such as`
  throw new Error(
    `${registry} is missing or has no databases, but ${directory} has ${count} ${example}: names, keys and tokens are in the registry. ` +
      `Restore it from a backup: rm -f ${quote(`${registry}-wal`)} ${quote(`${registry}-shm`)} && cp BACKUP/${registryFile} ${quote(registry)}. ` +
      'To start without these databases, move their folders out of the data directory',
  )
}

/** Quotes a word for a shell. */
const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`

/** Returns the folders of all databases: `databases/ID` of the embedded back end, `sqld/GROUP/sqld/dbs/ID` of libsql-server. */
async function findDatabaseFolders(directory: string): Promise<readonly string[]> {
  const groups = await listFolder(join(directory, 'sqld'))
  const parents = ['databases', ...groups.map((group) => join('sqld', group, 'sqld', 'dbs'))]
  const folders: string[] = []
  for (const parent of parents) {
    for (const name of (await listFolder(join(directory, parent))).filter(isUuid)) {
      const files = await listFolder(join(directory, parent, name))
      if (files.includes('data') || files.includes('data.db')) folders.push(join(parent, name))
    }
  }
  return folders
}
