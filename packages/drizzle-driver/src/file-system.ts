import type * as FileSystem from 'node:fs/promises'

/**
 * Returns Node's file system module. Not imported, because bundlers for edge platforms reject even an unused import.
 * @throws TypeError on a platform without one
 */
export function fileSystem(): typeof FileSystem {
  // edge platforms have no `process`, or one without this function
  const fsModule = (globalThis as { process?: Partial<NodeJS.Process> }).process?.getBuiltinModule?.(
    'node:fs/promises',
  )
  if (fsModule === undefined)
    throw new TypeError('this platform has no file system: pass `migrations` instead of `migrationsFolder`')
  return fsModule
}
