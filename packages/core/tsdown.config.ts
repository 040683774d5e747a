import { readFileSync } from 'node:fs'
import { defineConfig, type UserConfig } from 'tsdown'

/**
 * Omits the parts of undici that core never uses: HTTP/2, and bodies other than strings. Replaces each `require` of a Node module
 * with `process.getBuiltinModule`: an import would load all of them at once, and with `node:http` everything that it exports,
 * which takes half of a short program's time.
 */
const omitUnused = {
  name: 'omit-unused',
  resolveId(id: string): string | null {
    if (/^node:http2$|\/web\/(fetch|webidl)\b/.test(id)) return '\0unused'
    return id.startsWith('node:') ? `\0${id}` : null
  },
  load(id: string): string | null {
    if (id === '\0unused') return "throw new Error('not part of this build of undici')"
    return id.startsWith('\0node:') ? `module.exports = process.getBuiltinModule('${id.slice(1)}')` : null
  },
}
const readUndiciFile = (file: string): string =>
  readFileSync(new URL(`node_modules/undici/${file}`, import.meta.url), 'utf8')
/**
 * Node's own timers, and microtasks of a promise, because the fake timers of a user's tests replace the global functions: a second
 * request would never be sent, and with Jest, which also replaces `queueMicrotask`, connections would never be closed.
 */
const TIMERS = `import { clearImmediate, clearTimeout, setImmediate, setTimeout } from 'node:timers'
const queueMicrotask = (callback) => void Promise.resolve().then(callback)`
const { version } = JSON.parse(readUndiciFile('package.json')) as { readonly version: string }

/**
 * Builds the main entry and the one for adapters for each kind of runtime. What both contain is one file, because each additional
 * file takes time to import. `imports` in package.json determines which sources it contains.
 */
const flavor = (
  name: string,
  conditions: readonly string[],
  {
    dts = false,
    entry = { [name]: 'src/index.ts', [`${name}-adapter`]: 'src/adapter.ts' },
  }: { dts?: boolean; entry?: Record<string, string> } = {},
): UserConfig => ({
  entry,
  format: ['esm'],
  platform: 'neutral',
  dts,
  clean: name === 'edge' ? ['dist/**'] : false,
  deps: { neverBundle: ['#undici-pool', /^undici\b/, /^node:/, /^@opentelemetry\//] },
  outputOptions: {
    comments: { annotation: true, legal: true, jsdoc: false },
    // v2-guard.ts is loaded only for servers that need it; declarations would be written into the JavaScript file
    codeSplitting: {
      groups: [{ name: `${name}-shared`, test: /src\/(?!.*v2-guard).*(?<!\.d)\.ts$/, minShareCount: 2 }],
    },
  },
  // modules loaded with `import()` import from these files, instead of splitting them into more
  inputOptions: {
    preserveEntrySignatures: 'allow-extension',
    resolve: { conditionNames: ['@batonsql/source', ...conditions] },
  },
})

export default defineConfig([
  flavor('edge', ['workerd'], { dts: true }),
  flavor('fetch', ['bun', 'node']),
  flavor('node', ['node']),
  // the same for all runtimes
  flavor('opentelemetry', ['workerd'], {
    dts: true,
    entry: { opentelemetry: 'src/observe/opentelemetry/index.ts' },
  }),
  {
    entry: { 'undici-pool': 'src/transport/undici-pool.ts' },
    outDir: 'dist/vendor',
    format: ['esm'],
    platform: 'neutral',
    dts: false,
    // the first request of a process waits until it is parsed
    minify: true,
    deps: { alwaysBundle: [/^undici\//], onlyBundle: ['undici'] },
    define: { esbuildDetection: 'true' }, // undici's flag for omitting its second parser
    plugins: [omitUnused],
    outputOptions: {
      postBanner: `/*! undici ${version}: lib/dispatcher/pool.js\n\n${readUndiciFile('LICENSE')}*/\n${TIMERS}`,
    },
  },
])
