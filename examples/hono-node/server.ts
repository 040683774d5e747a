import { once } from 'node:events'
import { createClient } from '@batonsql/core'
import { serve } from '@hono/node-server'
import { createApp } from './app.ts'

const db = createClient({
  url: process.env['DATABASE_URL'] ?? 'http://127.0.0.1:8080',
  authToken: process.env['DATABASE_TOKEN'],
})
await db.execute('create table if not exists guest (id integer primary key, name text not null unique)')

const server = serve(
  { fetch: createApp(db).fetch, hostname: '127.0.0.1', port: Number(process.env['PORT'] ?? 3000) },
  ({ port }) => console.log(`http://127.0.0.1:${port}`),
)

await once(process, 'SIGTERM')
// first finish the responses in flight, then the background work that they started
server.close()
await once(server, 'close')
await db.close({ drainMs: 5_000 })
