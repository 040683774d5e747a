// A program that provisions databases. The size of its bundle is limited: see scripts/size.mjs.
import { createPlatformClient } from '@batonsql/platform'

const platform = createPlatformClient({ organization: 'acme', token: 'token' })

export async function run(): Promise<unknown> {
  await platform.databases.ensure({ name: 'tenant', group: 'default' })
  return platform.databaseToken({ database: 'tenant', expiration: '1h' })
}
