import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { Plugin } from 'vitest/config'

const resolveFile = (path: string): string =>
  fileURLToPath(new URL(`../../internal/embedded-engine/${path}`, import.meta.url))

/**
 * Lets each thread of the engine load one file instead of 56. A run starts about 1,000 threads, and loading the sources would be a
 * tenth of its CPU time.
 */
export async function bundleEngineWorker(conditions: string[]): Promise<Plugin> {
  const { outputFiles } = await build({
    entryPoints: [resolveFile('src/engine/engine-worker.ts')],
    bundle: true,
    platform: 'node',
    format: 'esm',
    conditions,
    write: false,
  })
  const file = resolveFile('dist/engine-worker.js')
  mkdirSync(dirname(file), { recursive: true })
  // renamed, because another run may be reading the file
  const unfinished = `${file}.${process.pid}`
  for (const { contents } of outputFiles) writeFileSync(unfinished, contents)
  renameSync(unfinished, file)
  return {
    name: 'bundle-engine-worker',
    enforce: 'pre',
    transform: {
      filter: { id: /\/database-worker\.ts$/ },
      handler(code) {
        const bundled = code.replace('`./engine/engine-worker.${extension}`', "'../dist/engine-worker.js'")
        if (bundled === code) throw new Error('database-worker.ts does not name the program of its thread')
        return bundled
      },
    },
  }
}
