import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ApiTokens, getOrCreateKey, PLATFORM_KEY, REGISTRY_FILE, Registry } from '@batonsql/control-plane'
import { DirectoryLock } from '@batonsql/server-common/base'
import { addUser, type NewPlatformUser } from './local-platform.ts'
import { startLocalServer } from './server.ts'

/**
 * Exports a database from the data directory of a stopped server to a new SQLite file. Rejects if a server is using the
 * directory, or if the file exists.
 */
export async function exportFromDirectory(directory: string, name: string, file: string): Promise<void> {
  checkDirectory(directory)
  const registry = await Registry.open(directory)
  const backend = registry.getSetting('backend') === 'sqld' ? 'sqld' : 'embedded'
  const exists = registry.databases.rows.some((row) => row.name === name)
  registry.close()
  // checked first, because a server that has no databases creates one
  if (!exists) throw new Error(`database "${name}" does not exist`)
  const server = await startLocalServer({ dataDirectory: directory, backend })
  try {
    await server.exportDatabase(name, file)
  } finally {
    await server.close()
  }
}

/**
 * Creates a user of the platform API in the data directory of a stopped server. Rejects if a server is using the directory, or if
 * the name is taken.
 * @returns the user's API token
 */
export async function createUserInDirectory(directory: string, user: NewPlatformUser): Promise<string> {
  checkDirectory(directory)
  const lock = await DirectoryLock.acquire(directory)
  try {
    const registry = await Registry.open(directory)
    try {
      return addUser(registry, new ApiTokens(registry, getOrCreateKey(registry, PLATFORM_KEY)), user)
    } finally {
      registry.close()
    }
  } finally {
    await lock.release()
  }
}

/** Checks that a directory is a server's data directory, so that no new one is created in it. @throws Error otherwise */
function checkDirectory(directory: string): void {
  if (!existsSync(join(directory, REGISTRY_FILE)))
    throw new Error(`${directory} is not the data directory of a server`)
}
