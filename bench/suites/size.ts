import { gzipSync } from 'node:zlib'
import { build, type Plugin } from 'esbuild'
import { type Measurement, toMeasurement } from '../lib/results.ts'

const QUERY_PREFIX = `export const query = async (url) =>`
const PROGRAMS: Readonly<Record<string, string>> = {
  baton: `import { createClient } from '@batonsql/core'\n${QUERY_PREFIX} (await createClient({ url }).execute('select 1')).rows`,
  '@libsql/client': `import { createClient } from '@libsql/client/web'\n${QUERY_PREFIX} (await createClient({ url }).execute('select 1')).rows`,
  '@tursodatabase/serverless': `import { connect } from '@tursodatabase/serverless'\n${QUERY_PREFIX} await connect({ url }).all('select 1')`,
  'libsql-stateless-easy': `import { createClient } from 'libsql-stateless-easy'\n${QUERY_PREFIX} (await createClient({ url }).execute('select 1')).rows`,
}
const RUNTIMES = {
  edge: { platform: 'browser', conditions: ['workerd', 'browser'] },
  node: { platform: 'node', conditions: [] },
} as const

/** Omits modules that are imported with `import()`, because they are loaded only when needed. */
const lazyParts: Plugin = {
  name: 'lazy parts',
  setup({ onResolve }) {
    onResolve({ filter: /^\./ }, ({ kind, path }) =>
      kind === 'dynamic-import' ? { path, external: true } : null,
    )
  },
}

/** Measures how many bytes, minified and compressed, a program with one SELECT loads when it starts. */
export async function measureSizes(resolveDir: string): Promise<Measurement[]> {
  const measurements: Measurement[] = []
  for (const [environment, { platform, conditions }] of Object.entries(RUNTIMES)) {
    const sizes = new Map<string, number>()
    for (const [name, contents] of Object.entries(PROGRAMS)) {
      const { outputFiles } = await build({
        stdin: { contents, resolveDir, loader: 'js' },
        bundle: true,
        minify: true,
        format: 'esm',
        platform,
        conditions: [...conditions],
        write: false,
        logLevel: 'silent',
        plugins: [lazyParts],
      })
      const [file] = outputFiles
      if (file) sizes.set(name, gzipSync(file.contents, { level: 9 }).length)
    }
    const baseSize = sizes.get('baton') ?? Number.NaN
    for (const [subject, size] of sizes) {
      const labels = {
        suite: 'size',
        operation: 'program with one SELECT',
        environment,
        subject,
        unit: 'bytes gzip',
      }
      measurements.push(toMeasurement({ ...labels, baseline: 'baton' }, [size], [baseSize]))
    }
  }
  return measurements
}
