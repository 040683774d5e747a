import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const require = createRequire(import.meta.url)

/** Version of this package. */
export const PACKAGE_VERSION: string = versionIn(require.resolve('../package.json'))

/** Version of the embedded engine's package. */
export function libsqlVersion(): string {
  return versionIn(join(dirname(require.resolve('libsql')), 'package.json'))
}

function versionIn(manifest: string): string {
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
}
