// Applies pending migrations to every database of a group: `node migrate-tenants.ts --group tenants [--dry-run]`.
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { drizzle } from '@batonsql/drizzle-driver'
import { migrate, pendingMigrations } from '@batonsql/drizzle-driver/migrator'
import { createPlatformClient, databaseUrl } from '@batonsql/platform'

const { values: options } = parseArgs({
  options: {
    group: { type: 'string', default: 'default' },
    migrations: { type: 'string', default: `${import.meta.dirname}/../migrate-drizzle/drizzle` },
    concurrency: { type: 'string', default: '8' },
    'dry-run': { type: 'boolean', default: false },
  },
})
const { group, migrations: migrationsFolder, 'dry-run': isDryRun } = options
const concurrency = Number(options.concurrency)
if (!Number.isInteger(concurrency) || concurrency < 1)
  throw new TypeError(`--concurrency must be a positive integer, not ${options.concurrency}`)

const platform = createPlatformClient({
  url: process.env['BATON_API_URL'],
  token: process.env['BATON_API_TOKEN'] ?? '',
  organization: process.env['BATON_ORGANIZATION'] ?? '',
})
const tenants = await platform.databases.list({ group }).toArray({ limit: 100_000 })
// a misspelled name must not look like a group that is up to date
if (tenants.length === 0) throw new Error(`the group ${group} has no databases`)
// one short-lived token for all of them
const authToken = platform.databaseToken({ group, expiration: '15m' })
const failures: string[] = []
let changedCount = 0
let doneCount = 0

/** Migrates a tenant. @returns the migrations that were applied or, in a dry run, would be */
async function migrateTenant(hostname: string): Promise<readonly string[]> {
  const client = createClient({ url: databaseUrl(hostname), authToken })
  try {
    const apply = isDryRun ? pendingMigrations : migrate
    return await apply(drizzle({ client }), { migrationsFolder, timeoutMs: 60_000 })
  } finally {
    await client.close()
  }
}

function showProgress(): void {
  doneCount += 1
  const line = `${doneCount} of ${tenants.length} databases`
  if (process.stderr.isTTY) process.stderr.write(`\r${line}${doneCount === tenants.length ? '\n' : ''}`)
  else if (doneCount % 10 === 0 || doneCount === tenants.length) process.stderr.write(`${line}\n`)
}

const queue = tenants.values()
async function runWorker(): Promise<void> {
  for (const { name, hostname } of queue) {
    try {
      const tags = await migrateTenant(hostname)
      if (tags.length > 0) {
        changedCount += 1
        console.log(`${name}: ${isDryRun ? 'would apply' : 'applied'} ${tags.join(', ')}`)
      }
    } catch (error) {
      failures.push(`${name}: ${error instanceof Error ? error.message : String(error)}`)
    }
    showProgress()
  }
}
await Promise.all(Array.from({ length: concurrency }, runWorker))

const upToDate = tenants.length - changedCount - failures.length
console.log(
  `${changedCount} ${isDryRun ? 'would be migrated' : 'migrated'}, ${upToDate} up to date, ${failures.length} failed`,
)
for (const failure of failures) console.error(`FAILED ${failure}`)
if (failures.length > 0) process.exitCode = 1
