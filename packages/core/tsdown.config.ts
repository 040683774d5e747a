import { readFileSync } from 'node:fs'
import { defineConfig, type UserConfig } from 'tsdown'

/**
 * Leaves out what core never uses of undici: HTTP/2, and bodies other than strings. Modules of node are asked of node where
 * undici's CommonJS has `require`: an import would load all of them at once, and with `node:http` all that its exports hold,
 * which is half of a short program's time.
 */
const onlyUsed = {
  name: 'only-used',
  resolveId(id: string): string | null {
    if (/^node:http2$|\/web\/(fetch|webidl)\b/.test(id)) return '\0unused'
    return id.startsWith('node:') ? `\0${id}` : null
  },
  load(id: string): string | null {
    if (id === '\0unused') return "throw new Error('not part of this build of undici')"
    return id.startsWith('\0node:') ? `module.exports = process.getBuiltinModule('${id.slice(1)}')` : null
  },
}
const ofUndici = (file: string): string =>
  readFileSync(new URL(`node_modules/undici/${file}`, import.meta.url), 'utf8')
const { version } = JSON.parse(ofUndici('package.json')) as { readonly version: string }

/**
 * One file for each kind of runtime, because every file more costs time when it is imported: `imports` of the manifest
 * says which sources are in it.
 */
const flavor = (
  name: string,
  conditions: readonly string[],
  { dts = false, source = 'src/index.ts' } = {},
): UserConfig => ({
  entry: { [name]: source },
  format: ['esm'],
  platform: 'neutral',
  dts,
  clean: name === 'edge' ? ['dist/**'] : false,
  deps: { neverBundle: ['#undici-pool', /^undici\b/, /^node:/, /^@opentelemetry\//] },
  outputOptions: { comments: { annotation: true, legal: true, jsdoc: false } },
  // what is loaded with `import()` imports from the one file, instead of making more of it
  inputOptions: {
    preserveEntrySignatures: 'allow-extension',
    resolve: { conditionNames: ['@batonsql/source', ...conditions] },
  },
})

export default defineConfig([
  flavor('edge', ['workerd'], { dts: true }),
  flavor('fetch', ['bun', 'node']),
  flavor('node', ['node']),
  // the same everywhere
  flavor('opentelemetry', ['workerd'], { dts: true, source: 'src/observe/opentelemetry/index.ts' }),
  {
    entry: { 'undici-pool': 'src/transport/undici-pool.ts' },
    outDir: 'dist/vendor',
    format: ['esm'],
    platform: 'neutral',
    dts: false,
    deps: { alwaysBundle: [/^undici\//], onlyBundle: ['undici'] },
    define: { esbuildDetection: 'true' }, // undici's word for: no second parser
    plugins: [onlyUsed],
    outputOptions: {
      postBanner: `/*! undici ${version}: lib/dispatcher/pool.js\n\n${ofUndici('LICENSE')}*/`,
    },
  },
])
