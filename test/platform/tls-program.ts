// A tenant's program on another machine, which has only the host names and the certificate of the proxy.
import dns from 'node:dns'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient, listen, readRows } from '@batonsql/core'
import { createPlatformClient, databaseUrl } from '@batonsql/platform'

// without a name server, every name resolves to this machine
dns.lookup = ((_host: string, options: { all?: boolean }, callback: (...args: unknown[]) => void) =>
  options.all === true
    ? callback(null, [{ address: '127.0.0.1', family: 4 }])
    : callback(null, '127.0.0.1', 4)) as unknown as typeof dns.lookup

const settings = JSON.parse(process.argv[2] ?? '{}') as {
  url: string
  token: string
  organization: string
  /** Origin of databases that are named by the path. */
  domain: string
}
const { domain, ...access } = settings
const platform = createPlatformClient({ ...access, maxRetries: 0 })
const { hostname } = await platform.databases.create({ name: 'app', group: 'default' })
const authToken = String(await platform.databases.createToken('app'))
const url = databaseUrl(hostname)
const db = createClient({ url, authToken })
await db.execute('CREATE TABLE t (a)')

// requests of one stream
await db.transaction(async (transaction) => {
  await transaction.execute('INSERT INTO t VALUES (1)')
  await transaction.execute('INSERT INTO t VALUES (2)')
})
const committed = (await db.execute('SELECT a FROM t')).rows.map(({ a }) => a)

// a response that is read while it arrives
let rowCount = 0
const query =
  'WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 5000) SELECT a FROM n'
for await (const _ of readRows(db, query)) rowCount += 1

// the first 20 MB of a response that never ends, which is not read for longer than `send_timeout` of nginx, as the test sets it
let lastOfEndless = 0
const endless =
  'WITH RECURSIVE n (a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n) SELECT a, hex(zeroblob(1000)) FROM n'
for await (const { a } of readRows(db, endless)) {
  lastOfEndless = Number(a)
  if (lastOfEndless === 1) await sleep(4_000)
  if (lastOfEndless === 10_000) break
}

// a large request
const { rows: sizes } = await db.execute('SELECT length(?) AS size', ['x'.repeat(2_000_000)])
const largeBody = sizes[0]?.['size']

// the same database by its path
const dbByPath = createClient({ url: `${domain}/app/`, authToken })
const byPath = (await dbByPath.execute('SELECT a FROM t')).rows.map(({ a }) => a)
await dbByPath.close()

// a response that stays open
let insertCount = 0
for await (const event of listen(db, { table: 't', signal: AbortSignal.timeout(20_000) })) {
  if (event.type === 'ready') await db.execute('INSERT INTO t VALUES (3)')
  else {
    insertCount = event.type === 'changes' ? event.insert : 0
    break
  }
}

/** Returns the status of a client's rejected request; null if the request succeeds. */
async function rejectionStatus(config: Parameters<typeof createClient>[0]): Promise<number | null> {
  const client = createClient(config)
  try {
    await client.execute('SELECT 1')
    return null
  } catch (error) {
    return (error as { status: number }).status
  } finally {
    await client.close()
  }
}
const withoutToken = await rejectionStatus({ url })
const otherUrl = url.replace('app-', 'other-')
const otherDatabase = await rejectionStatus({ url: otherUrl, authToken })
// the proxy drops these headers, so the host determines the database
const headers = { 'x-namespace': 'default', 'x-namespace-bin': Buffer.from('default').toString('base64') }
const dbWithHeaders = createClient({ url, authToken, headers })
const tableQuery = "SELECT name FROM sqlite_schema WHERE name = 't'"
const despiteHeaders = (await dbWithHeaders.execute(tableQuery)).rows.map(({ name }) => name)
await dbWithHeaders.close()
await platform.databases.rotateTokens('app')
const afterRotation = await rejectionStatus({ url, authToken })
const newToken = String(await platform.databases.createToken('app'))
await platform.databases.delete('app')
const afterDeletion = await rejectionStatus({ url, authToken: newToken })
await db.close()
console.log(
  JSON.stringify({
    url,
    committed,
    streamed: rowCount,
    lastOfEndless,
    largeBody,
    byPath,
    inserts: insertCount,
    withoutToken,
    otherDatabase,
    despiteHeaders,
    afterRotation,
    afterDeletion,
  }),
)
