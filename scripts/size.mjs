// Bundles small programs with the built packages, as a user's bundler does, and fails if one exceeds its budget (bytes after gzip
// -9). Modules imported with `import()` do not count, because they are loaded only when needed.
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const BUDGETS = [
  {
    name: 'edge program: createClient, execute, batch, transaction',
    entry: 'test/packages/size/edge-program.ts',
    limit: 19_283,
  },
  {
    name: '@batonsql/platform program: createPlatformClient and all of its routes',
    entry: 'test/packages/size/platform-program.ts',
    limit: 9_500,
  },
  {
    name: 'OpenTelemetry program, without @opentelemetry/api',
    entry: 'test/packages/size/opentelemetry-program.ts',
    limit: 3_200,
  },
]

const lazyParts = {
  name: 'lazy parts',
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ kind, path }) =>
      kind === 'dynamic-import' ? { path, external: true } : null,
    )
  },
}

let failed = false
for (const { name, entry, limit } of BUDGETS) {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    platform: 'browser',
    external: ['@opentelemetry/api'],
    conditions: ['workerd', 'worker'],
    plugins: [lazyParts],
  })
  const [{ contents }] = outputFiles
  const size = gzipSync(contents, { level: 9 }).length
  const isOver = size > limit
  failed ||= isOver
  console.log(
    `${isOver ? 'OVER' : 'ok  '} ${size} of ${limit} bytes gzip (${contents.length} minified): ${name}`,
  )
}

const PAGE = 'packages/local-server/dist/page/page.js'
const PAGE_LIMIT = 25_000
const page = gzipSync(readFileSync(PAGE), { level: 9 }).length
failed ||= page > PAGE_LIMIT
console.log(
  `${page > PAGE_LIMIT ? 'OVER' : 'ok  '} ${page} of ${PAGE_LIMIT} bytes gzip: page of the request inspector`,
)
process.exit(failed ? 1 : 0)
