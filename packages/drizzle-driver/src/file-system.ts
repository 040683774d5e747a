import type * as FileSystem from 'node:fs/promises'

/**
 * The file system. Asked for and not imported: bundlers for places without one refuse even an import that never runs.
 * @throws TypeError where there is none
 */
export function fileSystem(): typeof FileSystem {
  // not there at all, or without this function, on the edge
  const found = (globalThis as { process?: Partial<NodeJS.Process> }).process?.getBuiltinModule?.(
    'node:fs/promises',
  )
  if (found === undefined)
    throw new TypeError('there is no file system here: give `migrations` instead of `migrationsFolder`')
  return found
}
