import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { type Client, type Config, LibsqlError } from '@libsql/core/api'
import { type ExpandedConfig, expandConfig } from '@libsql/core/config'
import type { _createClient as CreateFileClient } from 'libsql-client-original/sqlite3'
import { _createClient, type ClientConfig } from './http.ts'

export * from '@libsql/core/api'
export { baton } from './http.ts'

/**
 * Makes a client: over HTTP for `libsql:`, `https:`, `http:`, `wss:` and `ws:`; for `file:` and `:memory:`, with `syncUrl` too, it
 * is the original's, which the optional package `libsql-client-original` brings.
 * @throws LibsqlError for a URL or an option that it cannot have
 */
export function createClient(config: ClientConfig): Client {
  const expanded = expandConfig(config as Config, true)
  return expanded.scheme === 'file' ? createFileClient(expanded) : _createClient(expanded)
}

/** Loaded only when it is needed: it has a native part. */
function createFileClient(config: ExpandedConfig): Client {
  let original: { _createClient: typeof CreateFileClient }
  try {
    // its ES modules: their errors are of the classes that are exported here
    const file = fileURLToPath(import.meta.resolve('libsql-client-original/sqlite3'))
    original = createRequire(import.meta.url)(file) as typeof original
  } catch (cause) {
    throw new LibsqlError(
      'a "file:" URL needs the package libsql-client-original, which is @libsql/client under another name: install it, or use the http: URL of a local server',
      'URL_SCHEME_NOT_SUPPORTED',
      undefined,
      undefined,
      cause as Error,
    )
  }
  return original._createClient(config)
}
