// Applies the migrations in drizzle/ before the Worker is deployed, because a Worker has no file system to read them from.
import { drizzle } from '@batonsql/drizzle-driver'
import { migrate } from '@batonsql/drizzle-driver/migrator'

const url = process.env['DATABASE_URL']
if (url === undefined) throw new Error('set DATABASE_URL')
const db = drizzle({ connection: { url, authToken: process.env['DATABASE_TOKEN'] } })
const applied = await migrate(db, { migrationsFolder: `${import.meta.dirname}/drizzle` })
console.log(applied.length === 0 ? 'nothing to do' : `applied ${applied.join(', ')}`)
await db.$client.close()
