import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { REGISTRY_FILE, Registry } from '../control-plane/registry/registry.ts'
import { startLocalServer } from '../server/server.ts'
import type { CommandInput } from './command-context.ts'
import type { EXPORT_OPTIONS } from './option-table.ts'
import { UsageError } from './usage-error.ts'

/** Writes a database of a data directory to an SQLite file. */
export async function runExport({ values, operands }: CommandInput<typeof EXPORT_OPTIONS>): Promise<void> {
  const [name, file] = operands as [string, string]
  const { data: directory } = values
  if (directory === undefined)
    throw new UsageError('baton export: say where the databases are: baton export NAME FILE.db --data DIR')
  const isKnown = existsSync(join(directory, REGISTRY_FILE))
  if (!isKnown) throw new UsageError(`baton export: there are no databases in ${directory}`)
  const registry = await Registry.open(directory)
  const backend = registry.setting('backend') === 'sqld' ? 'sqld' : 'embedded'
  registry.close()
  const server = await startLocalServer({ dataDirectory: directory, backend })
  try {
    await server.exportDatabase(name, file)
    console.log(`${name} is in ${file}`)
  } finally {
    await server.close()
  }
}
