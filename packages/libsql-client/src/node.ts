import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { type Client, LibsqlError } from '@libsql/core/api'
import type { ExpandedConfig } from '@libsql/core/config'
import type { _createClient as CreateFileClient } from 'libsql-client-original/sqlite3'
import { type ClientConfig, expand } from './expand.ts'
import { _createClient } from './http.ts'

export * from '@libsql/core/api'
export { baton } from './http.ts'

/**
 * Creates a client: over HTTP for `libsql:`, `https:`, `http:`, `wss:` and `ws:`; for `file:` and `:memory:`, with or without `syncUrl`,
 * the original client, from the optional package `libsql-client-original`.
 * @throws LibsqlError for an invalid URL or option
 */
export function createClient(config: ClientConfig): Client {
  const expandedConfig = expand(config, true)
  return expandedConfig.scheme === 'file' ? createFileClient(expandedConfig) : _createClient(expandedConfig)
}

/** Loads the original only when it is needed, because it has native code. */
function createFileClient(config: ExpandedConfig): Client {
  let original: { _createClient: typeof CreateFileClient }
  try {
    // loads the ES modules, because this module exports their error classes
    const file = fileURLToPath(import.meta.resolve('libsql-client-original/sqlite3'))
    original = createRequire(import.meta.url)(file) as typeof original
  } catch (cause) {
    throw new LibsqlError(
      'a "file:" URL needs the package libsql-client-original, an alias of @libsql/client: install it, or use the http: URL of a local server',
      'URL_SCHEME_NOT_SUPPORTED',
      undefined,
      undefined,
      cause as Error,
    )
  }
  return original._createClient(config)
}
