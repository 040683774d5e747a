// Bundles small programs with the built packages, as a user's bundler does, and fails if one exceeds its limit (bytes after gzip
// -9). Modules imported with `import()` do not count, because they are loaded only when needed.
//
// A limit is the size at the time it was set, plus 5 %. Whoever needs more sets it to the new size plus 5 %, and adds a line to
// `reasons` (docs/decisions/0011-edge-bundle.md).
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const PROGRAMS = [
  {
    name: 'edge program: createClient, execute, batch, transaction',
    entry: 'test/packages/size/edge-program.ts',
    limit: 25_915,
    reasons: [
      '2026-11-28: 19,212 bytes, the first limit by this rule',
      '2026-11-28: 21,032 bytes. Servers that ignore conditions are recognized, errors never change, a read is not_applied, and the sql template checks its text',
      '2026-11-28: 23,484 bytes. A stream is a state machine that is checked by itself',
      '2026-11-30: 24,681 bytes. Arguments and options whose content would be lost are rejected, and calls that send nothing obey close and signal',
    ],
  },
  {
    name: '@batonsql/platform program: createPlatformClient and all of its routes',
    entry: 'test/packages/size/platform-program.ts',
    limit: 10_849,
    reasons: [
      '2026-11-28: 9,302 bytes, the first limit by this rule',
      '2026-11-29: 9,773 bytes. A token or hostname that no request can use is rejected, instead of waiting for it',
      '2026-11-30: 10,332 bytes. Headers, queries and bodies whose content would be lost are rejected before anything is sent',
    ],
  },
  {
    name: 'OpenTelemetry program, without @opentelemetry/api',
    entry: 'test/packages/size/opentelemetry-program.ts',
    limit: 3_353,
    reasons: ['2026-11-28: 3,194 bytes, the first limit by this rule'],
  },
]
const INSPECTOR_PAGE = {
  name: 'page of the request inspector',
  file: 'packages/local-server/dist/page/page.js',
  limit: 25_777,
  reasons: ['2026-11-28: 24,550 bytes, the first limit by this rule'],
}

const lazyParts = {
  name: 'lazy parts',
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ kind, path }) =>
      kind === 'dynamic-import' ? { path, external: true } : null,
    )
  },
}

async function bundle(entry) {
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
  return outputFiles[0].contents
}

const artifacts = [
  ...(await Promise.all(
    PROGRAMS.map(async (program) => ({ ...program, content: await bundle(program.entry) })),
  )),
  { ...INSPECTOR_PAGE, content: readFileSync(INSPECTOR_PAGE.file) },
]
let isAnyOver = false
for (const { name, limit, content } of artifacts) {
  const size = gzipSync(content, { level: 9 }).length
  const isOver = size > limit
  isAnyOver ||= isOver
  console.log(
    `${isOver ? 'OVER' : 'ok  '} ${size} of ${limit} bytes gzip (${content.length} minified): ${name}`,
  )
}
if (isAnyOver)
  console.error(
    'Make the change smaller, or load rare code with import(). If the bytes are worth it, set the limit in scripts/size.mjs to the new size plus 5 % and add the reason there; a reviewer decides (docs/decisions/0011-edge-bundle.md).',
  )
process.exit(isAnyOver ? 1 : 0)
