import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

const DATABASE = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Whether a registry has no content: it does not exist, or is empty and has no WAL. */
export async function isEmptyFile(path: string): Promise<boolean> {
  return (await getSize(path)) + (await getSize(`${path}-wal`)) === 0
}

/**
 * Rejects a data directory that has databases although its registry knows none: a fresh registry would have other names, keys and
 * tokens, and the databases would be set aside.
 * @throws Error that says how to go on
 */
export async function checkHasNoDatabases(directory: string, registryFile: string): Promise<void> {
  const [example, ...others] = await findDatabaseFolders(directory)
  if (example === undefined) return
  const registry = join(directory, registryFile)
  throw new Error(
    `${registry} is missing or empty, but ${directory} has ${others.length + 1} databases, such as ${example}: their names, keys and tokens are in the registry. ` +
      `Restore it from a backup: rm -f '${registry}-wal' '${registry}-shm' && cp BACKUP/${registryFile} '${registry}'. ` +
      'To start without these databases, move their folders out of the data directory',
  )
}

/** Returns the folders of all databases of both back ends. */
async function findDatabaseFolders(directory: string): Promise<readonly string[]> {
  const groups = await list(join(directory, 'sqld'))
  const parents = ['databases', ...groups.map((group) => join('sqld', group, 'sqld', 'dbs'))]
  const folders: string[] = []
  for (const parent of parents) {
    for (const name of (await list(join(directory, parent))).filter((entry) => DATABASE.test(entry))) {
      const files = await list(join(directory, parent, name))
      if (files.includes('data') || files.includes('data.db')) folders.push(join(parent, name))
    }
  }
  return folders
}

const list = async (folder: string): Promise<readonly string[]> => await readdir(folder).catch(() => [])

const getSize = async (path: string): Promise<number> => (await stat(path).catch(() => null))?.size ?? 0
