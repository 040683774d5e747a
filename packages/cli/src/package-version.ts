import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const manifest = createRequire(import.meta.url).resolve('@batonsql/cli/package.json')
const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version: string }

export const PACKAGE_VERSION: string = version
