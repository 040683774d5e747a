// Applies the migrations that drizzle-kit has generated: `node migrate.ts`. With `--dry-run` it prints what it would apply.
import { parseArgs } from 'node:util'
import { drizzle } from '@batonsql/drizzle-driver'
import { migrate, pendingMigrations } from '@batonsql/drizzle-driver/migrator'

const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean', default: false } } })
const config = { migrationsFolder: `${import.meta.dirname}/drizzle` }

const db = drizzle({
  connection: {
    url: process.env['DATABASE_URL'] ?? 'http://127.0.0.1:8080',
    authToken: process.env['DATABASE_TOKEN'],
  },
})
const [action, tags] = values['dry-run']
  ? ['would apply', await pendingMigrations(db, config)]
  : ['applied', await migrate(db, config)]
console.log(tags.length === 0 ? 'nothing to do' : `${action} ${tags.join(', ')}`)
await db.$client.close()
