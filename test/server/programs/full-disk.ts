import { rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'

// Fills a small disk with one database and its snapshot, and deletes one of these or the group through the platform API.
const [disk = '', backend = 'embedded', deleted = '/databases/big'] = process.argv.slice(2)
const server = await startLocalServer({
  backend: backend as 'embedded' | 'sqld',
  dataDirectory: join(disk, 'data'),
  platform: {},
  auth: false,
})
const { url, token } = server.platform as NonNullable<typeof server.platform>
const send = async (method: string, path: string, body?: object): Promise<number> => {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
  return (await fetch(`${url}/v1/organizations/local${path}`, init)).status
}
await send('POST', '/groups', { name: 'extra', location: 'local' })
const statuses = [await send('POST', '/databases', { name: 'big', group: 'extra' })]
const db = createClient({ url: `${server.url}/big` })
await db.execute('create table t (a)')
const fill = async (): Promise<void> => {
  for (;;) await db.execute('insert into t values (randomblob(200000))')
}
await db.execute('insert into t values (zeroblob(3000000))')
await send('POST', '/databases/big/snapshots', { name: 'kept' })
await fill().catch(() => {})
const rest: string[] = []
try {
  for (;;) {
    const file = join(disk, `rest-${rest.length}`)
    rest.push(file)
    writeFileSync(file, Buffer.alloc(4_096))
  }
} catch {
  // the disk is full
}
const freeBefore = statfsSync(disk).bavail
statuses.push(await send('DELETE', deleted), await send('GET', '/databases/big'))
const freed = statfsSync(disk).bavail - freeBefore
for (const file of rest) rmSync(file, { force: true })
statuses.push(await send('POST', '/databases', { name: 'next', group: 'default' }))
await db.close()
await server.close()
console.log(JSON.stringify({ statuses, hasFreed: freed > 700 }))
