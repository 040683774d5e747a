import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** Version of this package. */
export const PACKAGE_VERSION: string = readVersion(require.resolve('@batonsql/cli/package.json'))

function readVersion(manifest: string): string {
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
}
