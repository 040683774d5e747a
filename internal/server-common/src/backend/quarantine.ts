import { mkdir, rename } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { listFolder } from '../base/list-folder.ts'
import type { DatabaseId } from './backend.ts'

/**
 * Moves the folders of unknown databases to a separate folder, so that they can be inspected manually. Must not be called while
 * an engine has them open.
 * @returns the names of the moved folders
 */
export async function moveToQuarantine(
  directory: string,
  knownIds: ReadonlySet<DatabaseId>,
): Promise<readonly DatabaseId[]> {
  const names = (await listFolder(directory)) as DatabaseId[]
  const unknownNames = names.filter((name) => isDatabaseFolder(name) && !knownIds.has(name))
  if (unknownNames.length === 0) return []
  const quarantine = join(dirname(directory), `${basename(directory)}-set-aside`)
  await mkdir(quarantine, { recursive: true })
  for (const name of unknownNames) await rename(join(directory, name), join(quarantine, name))
  return unknownNames
}

function isDatabaseFolder(name: string): boolean {
  return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(name)
}
