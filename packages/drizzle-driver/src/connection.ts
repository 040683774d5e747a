import { type Client, type ClientConfig, createClient } from '@batonsql/core'

/** How to reach the database: a client, which stays the caller's to close, or the settings of one. */
export type Connection =
  | { readonly connection: string | URL | ClientConfig; readonly client?: undefined }
  | { readonly client: Client; readonly connection?: undefined }

export const connect = (connection: string | URL | ClientConfig): Client =>
  createClient(typeof connection === 'string' || connection instanceof URL ? { url: connection } : connection)

/** @throws TypeError when it is neither or both */
export function clientOf({ client, connection }: Connection): Client {
  if (client !== undefined && connection === undefined) return client
  if (client === undefined && connection !== undefined) return connect(connection)
  throw new TypeError('expected a URL, a client, or a configuration with either `client` or `connection`')
}

/** What stands for the client of a database that has none. */
export const NO_CLIENT = '$client is not available on drizzle.mock()'

/** A client that refuses everything. */
export function mockClient(): Client {
  const refuse = async (): Promise<never> => {
    throw new TypeError('a database made by drizzle.mock() runs no queries')
  }
  return { execute: refuse, batch: refuse, transaction: refuse } as unknown as Client
}
