import { existsSync } from 'node:fs'
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { listFolder } from '../base/list-folder.ts'
import type { DatabaseId } from './backend.ts'

/** A database that the registry does not know, and the folder to which it was moved. */
export interface QuarantinedDatabase {
  readonly id: DatabaseId
  readonly folder: string
}

/**
 * Moves the folders of unknown databases to a separate folder, so that they can be inspected manually. Must not be called while
 * an engine has them open.
 */
export async function moveToQuarantine(
  directory: string,
  knownIds: ReadonlySet<DatabaseId>,
): Promise<readonly QuarantinedDatabase[]> {
  const names = (await listFolder(directory)) as DatabaseId[]
  const unknownIds = names.filter((name) => isDatabaseFolder(name) && !knownIds.has(name))
  if (unknownIds.length === 0) return []
  const quarantine = getQuarantineFolder(directory)
  await mkdir(quarantine, { recursive: true })
  const moved: QuarantinedDatabase[] = []
  for (const id of unknownIds) {
    const folder = findFreePath(join(quarantine, id))
    await rename(join(directory, id), folder)
    moved.push({ id, folder })
  }
  return moved
}

/** Returns the folder to which unknown databases of a directory are moved. */
export function getQuarantineFolder(directory: string): string {
  return `${directory}-set-aside`
}

/** Returns a path that does not exist yet, with a number if necessary: a database may be moved there more than once. */
function findFreePath(path: string): string {
  let freePath = path
  for (let number = 2; existsSync(freePath); number += 1) freePath = `${path}-${number}`
  return freePath
}

function isDatabaseFolder(name: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(name)
}
