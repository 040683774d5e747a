import { join } from 'node:path'
import type { DatabaseId } from '@batonsql/server-common/backend'
import { expect, test } from 'vitest'
import type { SqldBackendOptions } from './backend.ts'
import { SqldGroups } from './groups.ts'

const ID = '00000000-0000-4000-8000-000000000001' as DatabaseId
const GROUP = '00000000-0000-4000-8000-000000000002'
const settings = {} as Parameters<SqldGroups['move']>[2]

test('a database is not moved to its own group, which would remove it', async () => {
  const missing = join(import.meta.dirname, 'missing')
  await using groups = new SqldGroups({
    ...({} as SqldBackendOptions),
    directory: missing,
    sqldPath: missing,
    findGroup: () => GROUP,
    hasGroup: () => true,
    getReplicaLocations: () => [],
  })
  const commit = (): never => {
    throw new Error('committed')
  }
  await expect(groups.move(ID, GROUP, settings, commit)).rejects.toThrow('already in this group')
})
