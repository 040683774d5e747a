import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

export const PACKAGE_VERSION: string = readVersion(require.resolve('@batonsql/local-server/package.json'))

/** Version of libsql-server that the embedded server imitates. */
export const IMITATED_VERSION = '0.24.32'

function readVersion(manifest: string): string {
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
}
