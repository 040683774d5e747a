import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { startLocalServer } from './server.ts'

test('archiving a group is rejected if the back end has not applied it, and is then pending', async () => {
  const dataDirectory = createTemporaryDirectory()
  vi.spyOn(console, 'error').mockReturnValue()
  await using server = await startLocalServer({ dataDirectory, platform: {} })
  const database = server.databaseId('default')
  rmSync(join(dataDirectory, 'databases', database, 'data.db'))
  await expect(server.platform?.archiveGroup('default')).rejects.toThrow('has not applied it yet')
  expect(server.platform?.pendingChanges).toMatchObject([{ database }])
})

test('createDatabase() creates a database in a group, and rejects one that does not exist or is archived', async () => {
  await using server = await startLocalServer({ port: 0, platform: {} })
  const { platform } = server
  if (platform === null) throw new Error('no platform')
  const headers = { authorization: `Bearer ${platform.token}` }
  const api = `${platform.url}/v1/organizations/local`
  await fetch(`${api}/groups`, { method: 'POST', headers, body: '{"name":"shop","location":"local"}' })
  await server.createDatabase('orders', { group: 'shop', isSchema: true })
  const response = await fetch(`${api}/databases/orders`, { headers })
  expect(await response.json()).toMatchObject({ database: { group: 'shop' } })
  await expect(server.createDatabase('child', { schema: 'orders' })).rejects.toThrow(
    'a database and its schema must be in the same group',
  )
  await expect(server.createDatabase('x', { group: 'stores' })).rejects.toThrow(
    'group "stores" does not exist; the groups are: default, shop',
  )
  await platform.archiveGroup('shop')
  await expect(server.createDatabase('x', { group: 'shop' })).rejects.toThrow('group "shop" is archived')
})
