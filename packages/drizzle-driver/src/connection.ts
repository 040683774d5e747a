import { Client, type ClientConfig, createClient } from '@batonsql/core'

/** How to reach the database: a client, which stays the caller's to close, or the settings of one. */
export type Connection =
  | { readonly connection: string | URL | ClientConfig; readonly client?: undefined }
  | { readonly client: Client; readonly connection?: undefined }

/**
 * The client, and the rest of what `drizzle()` was called with: an address or a client and a configuration, or one
 * configuration with either in it.
 * @throws TypeError when it has neither or both, or a client that gives integers as strings
 */
export function openClient<C>(
  first: string | URL | Client | (C & Connection),
  config: C | undefined,
): [Client, C | undefined] {
  const [client, rest] = clientOf(first, config)
  if (client.intMode === 'string')
    throw new TypeError(
      "intMode: 'string' cannot be used with Drizzle, whose columns read numbers: leave it out, and declare large integers with int64()",
    )
  return [client, rest]
}

function clientOf<C>(
  first: string | URL | Client | (C & Connection),
  config: C | undefined,
): [Client, C | undefined] {
  if (first instanceof Client) return [first, config]
  // createClient reports a URL that is undefined
  if (first === undefined || typeof first === 'string' || first instanceof URL)
    return [createClient({ url: first }), config]
  const { client, connection }: Partial<Connection> = first ?? {}
  if (client && connection) throw new TypeError(`${EXPECTED}, not both`)
  if (client) return [client, first]
  if (!('connection' in Object(first))) throw new TypeError(`${EXPECTED}, not ${describe(first)}`)
  const isConfig = typeof connection === 'object' && !(connection instanceof URL)
  return [createClient(isConfig ? connection : { url: connection as string | URL }), first]
}

const EXPECTED = 'expected a URL, a client, or a configuration with either `client` or `connection`'

/** A value by its kind alone: it may hold a token. */
const describe = (value: unknown): string =>
  typeof value === 'object' && value !== null
    ? `an object of ${Object.keys(value).join(', ') || 'nothing'}`
    : String(value === null ? null : typeof value)

/** What stands for the client of a database that has none. */
export const NO_CLIENT = '$client is not available on drizzle.mock()'

/** A client that refuses everything. */
export function mockClient(): Client {
  const refuse = async (): Promise<never> => {
    throw new TypeError('a database made by drizzle.mock() runs no queries')
  }
  return { execute: refuse, batch: refuse, transaction: refuse } as unknown as Client
}
