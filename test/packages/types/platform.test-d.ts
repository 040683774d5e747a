import { createClient } from '@batonsql/core'
import {
  type AssignableRole,
  createPlatformClient,
  type Database,
  type DatabaseToken,
  isAlreadyExists,
  type Pages,
  type PlatformCall,
  type PlatformCallOptions,
  type PlatformError,
} from '@batonsql/platform'

// Code that must compile with the platform client, and code that must not.

const platform = createPlatformClient({ organization: 'acme', token: 'any string' })
createPlatformClient({ token: () => 'text' })
createPlatformClient({ token: async () => 'text', fetch: globalThis.fetch })

declare const databaseToken: DatabaseToken
createClient({ url: 'http://127.0.0.1', authToken: databaseToken })
createClient({
  url: 'http://127.0.0.1',
  authToken: platform.databaseToken({ database: 'db', expiration: '1h' }),
})
// @ts-expect-error a database token is not a platform token
createPlatformClient({ token: databaseToken })
// @ts-expect-error a function must not return a database token either
createPlatformClient({ token: platform.databaseToken({ database: 'db', expiration: '1h' }) })
// @ts-expect-error either a database or a group
platform.databaseToken({ database: 'db', group: 'g', expiration: '1h' })
// @ts-expect-error the tokens of a provider must expire
platform.databaseToken({ database: 'db' })

export const database: PlatformCall<Database> = platform.databases.get('db')
// @ts-expect-error the group is required
void platform.databases.create({ name: 'db' })
// @ts-expect-error an unknown scope
void platform.apiTokens.create({ name: 'ci', organization: 'acme', group: 'g', scopes: ['write'] })
// @ts-expect-error an invitation needs either an email address or a user name
void platform.invites.create({ email: 'a@b.c', username: 'ada' })

// the types of a method are derived from its entry in the table
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Get = (name: string, options?: PlatformCallOptions) => PlatformCall<Database>
export const isGet: Same<typeof platform.databases.get, Get> = true
// @ts-expect-error
export const isOther: Same<typeof platform.databases.getInstance, Get> = true
export const updateRole: (username: string, role: AssignableRole) => Promise<unknown> =
  platform.members.updateRole
export const list: Pages<Database> = platform.databases.list({ pageSize: 1 })
// @ts-expect-error no such option
platform.databases.list({ page: 1 })
// @ts-expect-error the instance is missing
void platform.databases.getInstance('db')
// @ts-expect-error the result of a custom request is unknown
void (await platform.request('GET', '/v1/plans')).plans
export const plans: object = await platform.request<object>('GET', '/v1/plans')
// @ts-expect-error an unknown code
export const isLost = (error: PlatformError): boolean => error.code === 'LOST'
createPlatformClient({
  token: 't',
  observe(event) {
    if (event.type === 'retry') console.log(event.delayMs, event.attempt)
    // @ts-expect-error only for a response
    if (event.type === 'request:start') console.log(event.status)
  },
})

export async function names(): Promise<string[]> {
  const strings: string[] = []
  for await (const { name, raw } of platform.databases.list({ group: 'g' }))
    strings.push(name, String(raw['Name']))
  const { data, response } = await platform.databases.get('db').withResponse()
  const isTaken: boolean = isAlreadyExists(response)
  return [...strings, data.hostname, String(isTaken), response.requestId ?? '']
}
