import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ApiTokens, getOrCreateKey, PLATFORM_KEY, REGISTRY_FILE, Registry } from '@batonsql/control-plane'
import { DirectoryLock } from '@batonsql/server-common/base'
import { addUser, type NewPlatformUser } from './local-platform.ts'
import { ServerLog } from './server-log.ts'
import { Service } from './service.ts'

/**
 * Exports a database from the data directory of a stopped server to a new SQLite file. Rejects if a server is using the
 * directory, or if the file exists.
 */
export async function exportFromDirectory(directory: string, name: string, file: string): Promise<void> {
  checkDirectory(directory)
  const registry = await Registry.open(directory)
  const backend = registry.getSetting('backend') === 'sqld' ? 'sqld' : 'embedded'
  const organization = registry.organizations.get(registry.getSetting('home') ?? '')
  const exists = organization !== undefined && registry.findDatabase(organization.id, name) !== undefined
  registry.close()
  // checked first, because a server that has no databases creates one
  if (!exists) throw new Error(`database "${name}" does not exist`)
  const service = await Service.start({
    dataDirectory: directory,
    backend,
    platform: { organization: organization.slug },
    listenHost: '127.0.0.1',
    log: new ServerLog('none'),
  })
  try {
    await service.exportDatabase(name, file)
  } finally {
    await service.close()
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
