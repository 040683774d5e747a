import { existsSync } from 'node:fs'
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { isUuid } from '../base/is-uuid.ts'
import { listFolder } from '../base/list-folder.ts'
import type { DatabaseId } from './backend.ts'

/** A database that was set aside, and the folder to which its own folder was moved. */
export interface SetAsideDatabase {
  readonly id: DatabaseId
  readonly folder: string
}

/**
 * Sets aside the databases of a directory that are not in the registry: moves their folders to a separate folder, so that they can be
 * inspected manually. Must not be called while an engine has them open.
 */
export async function setAside(
  directory: string,
  registeredIds: ReadonlySet<DatabaseId>,
): Promise<readonly SetAsideDatabase[]> {
  const ids = (await listFolder(directory)).filter(isUuid) as DatabaseId[]
  const unregisteredIds = ids.filter((id) => !registeredIds.has(id))
  if (unregisteredIds.length === 0) return []
  const target = getSetAsideFolder(directory)
  await mkdir(target, { recursive: true })
  const moved: SetAsideDatabase[] = []
  for (const id of unregisteredIds) {
    const folder = findFreePath(join(target, id))
    await rename(join(directory, id), folder)
    moved.push({ id, folder })
  }
  return moved
}

/** Returns the folder to which the databases of a directory are moved if they are not in the registry. */
export function getSetAsideFolder(directory: string): string {
  return `${directory}-set-aside`
}

/** Returns a path that does not exist yet, with a number if necessary: a database may be set aside more than once. */
function findFreePath(path: string): string {
  let freePath = path
  for (let number = 2; existsSync(freePath); number += 1) freePath = `${path}-${number}`
  return freePath
}
