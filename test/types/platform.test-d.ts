import { createClient } from '@batonsql/core'
import {
  createPlatformClient,
  type Database,
  type DatabaseToken,
  isAlreadyExists,
  type PlatformCall,
} from '@batonsql/platform'

// What must and must not compile with the platform client.

const platform = createPlatformClient({ organization: 'acme', token: 'any string' })
createPlatformClient({ token: () => 'text' })
createPlatformClient({ token: async () => 'text', fetch: globalThis.fetch })

declare const databaseToken: DatabaseToken
createClient({ url: 'http://127.0.0.1', authToken: databaseToken })
createClient({ url: 'http://127.0.0.1', authToken: platform.databaseToken({ database: 'db', ttl: '1h' }) })
// @ts-expect-error a database token is none of the platform
createPlatformClient({ token: databaseToken })
// @ts-expect-error a function that gives one neither
createPlatformClient({ token: platform.databaseToken({ database: 'db', ttl: '1h' }) })
// @ts-expect-error either a database or a group
platform.databaseToken({ database: 'db', group: 'g', ttl: '1h' })
// @ts-expect-error a provider's tokens end
platform.databaseToken({ database: 'db' })

export const database: PlatformCall<Database> = platform.databases.get('db')
// @ts-expect-error the group is needed
void platform.databases.create({ name: 'db' })
// @ts-expect-error a scope is one of those that there are
void platform.apiTokens.create('ci', { organization: 'acme', group: 'g', scopes: ['write'] })
// @ts-expect-error an invitation goes to one of the two
void platform.invites.create({ email: 'a@b.c', username: 'ada' })

export async function names(): Promise<string[]> {
  const found: string[] = []
  for await (const { name, raw } of platform.databases.list({ group: 'g' }))
    found.push(name, String(raw['Name']))
  const { data, response } = await platform.databases.get('db').withResponse()
  const isTaken: boolean = isAlreadyExists(response)
  return [...found, data.hostname, String(isTaken), response.requestId ?? '']
}
