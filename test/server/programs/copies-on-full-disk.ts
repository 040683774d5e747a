import { statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'

// Copies a database of 4 MB in every way on a small disk with too little free space, and prints the errors.
const [disk = '', backend = 'embedded', freeBytes = ''] = process.argv.slice(2)
await using server = await startLocalServer({
  backend: backend as 'embedded' | 'sqld',
  dataDirectory: join(disk, 'data'),
  platform: {},
  auth: false,
})
const { url, token } = server.platform as NonNullable<typeof server.platform>
const callPlatform = async (path: string, body: object): Promise<void> => {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const init = { method: 'POST', headers, body: JSON.stringify(body) }
  const response = await fetch(`${url}/v1/organizations/local${path}`, init)
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
}
await using db = createClient({ url: `${server.url}/default` })
await db.execute('create table t (a)')
await db.execute('insert into t values (zeroblob(4000000))')
const { bavail, bsize } = statfsSync(disk)
writeFileSync(join(disk, 'rest'), Buffer.alloc(bavail * bsize - Number(freeBytes)))
const copies = [
  () => server.createSnapshot('default'),
  () => server.exportDatabase('default', join(disk, 'export.db')),
  () => server.createDatabase('copy', { fromDatabase: 'default' }),
  () => callPlatform('/databases/default/snapshots', {}),
  () =>
    callPlatform('/databases', {
      name: 'copy',
      group: 'default',
      seed: { type: 'database', name: 'default' },
    }),
]
const errors: string[] = []
for (const copy of copies) await copy().catch((error: Error) => errors.push(error.message))
console.log(JSON.stringify(errors))
