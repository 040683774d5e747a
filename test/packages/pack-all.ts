import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { FOLDERS, pack } from './tarballs.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Folder with the tarballs of all packages. */
    packed: string
  }
}

/** Builds and packs the packages before the test files of a project, which share the result. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'baton-packed-'))
  // the first package is packed with the script that builds all packages, as a developer would pack it
  for (const [index, name] of FOLDERS.entries()) await pack('npm', name, folder, index === 0)
  project.provide('packed', folder)
  return () => rm(folder, { recursive: true })
}
