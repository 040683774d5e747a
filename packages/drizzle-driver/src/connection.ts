import { Client, type ClientConfig, createClient } from '@batonsql/core'
import { checkClient } from '@batonsql/core/adapter'

/** A client, which the caller closes, or the settings of one. */
export type Connection =
  | { readonly connection: string | URL | ClientConfig; readonly client?: undefined }
  | { readonly client: Client; readonly connection?: undefined }

/**
 * Returns the client and the configuration for the arguments of `drizzle()`: an address or a client with a configuration, or a
 * configuration that contains either.
 * @throws TypeError if it has neither or both, another library's client, or a client that returns integers as strings
 */
export function openClient<C>(
  source: string | URL | Client | (C & Connection),
  config: C | undefined,
): [Client, C | undefined] {
  const [client, drizzleConfig] = resolveClient(source, config)
  checkClient(client)
  if (client.intMode === 'string')
    throw new TypeError(
      "intMode: 'string' cannot be used with Drizzle, whose columns read numbers: omit it, and declare large integers with int64()",
    )
  return [client, drizzleConfig]
}

function resolveClient<C>(
  source: string | URL | Client | (C & Connection),
  config: C | undefined,
): [Client, C | undefined] {
  if (source instanceof Client) return [source, config]
  // createClient reports a URL that is undefined
  if (source === undefined || typeof source === 'string' || source instanceof URL)
    return [createClient({ url: source }), config]
  const { client, connection }: Partial<Connection> = source ?? {}
  if (client && connection) throw new TypeError(`${EXPECTED}, not both`)
  if (client) return [client, source]
  if (!('connection' in Object(source))) throw new TypeError(`${EXPECTED}, not ${describe(source)}`)
  const isConfig = typeof connection === 'object' && !(connection instanceof URL)
  return [createClient(isConfig ? connection : { url: connection as string | URL }), source]
}

const EXPECTED = 'expected a URL, a client, or a configuration with either `client` or `connection`'

/** Describes a value only by its type, because it may contain a token. */
const describe = (value: unknown): string =>
  typeof value === 'object' && value !== null
    ? `an object of ${Object.keys(value).join(', ') || 'nothing'}`
    : String(value === null ? null : typeof value)

/** Value of `$client` for a database without a client. */
export const NO_CLIENT = '$client is not available on drizzle.mock()'

/** Returns a client that rejects all queries. */
export function mockClient(): Client {
  const reject = async (): Promise<never> => {
    throw new TypeError('a database created by drizzle.mock() runs no queries')
  }
  return { execute: reject, batch: reject, transaction: reject } as unknown as Client
}
