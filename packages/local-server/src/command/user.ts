import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { REGISTRY_FILE } from '../control-plane/registry/registry.ts'
import { makeUserOf } from '../server/local-platform.ts'
import type { CommandInput } from './command-context.ts'
import type { USER_OPTIONS } from './option-table.ts'
import { UsageError } from './usage-error.ts'

/** Creates a user of the platform API in a data directory. */
export async function runUser({ values, operands }: CommandInput<typeof USER_OPTIONS>): Promise<void> {
  const [username] = operands as [string]
  const { data: directory, email } = values
  if (directory === undefined)
    throw new UsageError('baton user: missing data directory: baton user NAME --data DIR')
  if (!existsSync(join(directory, REGISTRY_FILE)))
    throw new UsageError(`baton user: no control plane in ${directory}`)
  console.log(await makeUserOf(directory, email === undefined ? { username } : { username, email }))
}
