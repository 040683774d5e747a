import { readFileSync } from 'node:fs'
import { esmExternalRequirePlugin } from 'rolldown/plugins'
import { defineConfig, type UserConfig } from 'tsdown'

/** Only undici's HTTP cache, which is not part of this, opens `node:sqlite`; importing it would print a warning. */
const withoutSqlite = {
  name: 'without-sqlite',
  resolveId: (id: string) => (id === 'node:sqlite' ? '\0without-sqlite' : null),
  load: (id: string) => (id === '\0without-sqlite' ? 'export {}' : null),
}
const undiciLicense = readFileSync(new URL('node_modules/undici/LICENSE', import.meta.url), 'utf8')

/**
 * One file for each kind of runtime, because every file more costs time when it is imported: `imports` of the manifest
 * says which sources are in it.
 */
const flavour = (
  name: string,
  conditions: readonly string[],
  { dts = false, source = 'src/index.ts' } = {},
): UserConfig => ({
  entry: { [name]: source },
  format: ['esm'],
  platform: 'neutral',
  dts,
  clean: name === 'edge' ? ['dist/**'] : false,
  deps: { neverBundle: ['#undici', 'undici', /^node:/] },
  outputOptions: { comments: { annotation: true, legal: true, jsdoc: false } },
  inputOptions: { resolve: { conditionNames: ['@batonsql/source', ...conditions] } },
})

export default defineConfig([
  flavour('edge', ['workerd'], { dts: true }),
  flavour('fetch', ['bun', 'node']),
  flavour('node', ['node']),
  // the same everywhere: it has the platform's `fetch`
  flavour('platform', ['workerd'], { dts: true, source: 'src/platform/index.ts' }),
  {
    entry: { undici: 'vendor/undici.js' },
    outDir: 'dist/vendor',
    format: ['esm'],
    platform: 'neutral',
    dts: false,
    deps: { alwaysBundle: [/^undici\//], onlyBundle: ['undici'] },
    plugins: [withoutSqlite, esmExternalRequirePlugin({ external: [/^node:(?!sqlite$)/] })],
    outputOptions: { postBanner: `/*! undici\n\n${undiciLicense}*/` },
  },
])
