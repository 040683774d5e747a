import { readFileSync } from 'node:fs'
import { esmExternalRequirePlugin } from 'rolldown/plugins'
import { defineConfig } from 'tsdown'

/** Only undici's HTTP cache, which is not part of this, opens `node:sqlite`; importing it would print a warning. */
const withoutSqlite = {
  name: 'without-sqlite',
  resolveId: (id: string) => (id === 'node:sqlite' ? '\0without-sqlite' : null),
  load: (id: string) => (id === '\0without-sqlite' ? 'export {}' : null),
}
const undiciLicense = readFileSync(new URL('node_modules/undici/LICENSE', import.meta.url), 'utf8')

export default defineConfig([
  {
    entry: {
      index: 'src/index.ts',
      'transport/node': 'src/transport/node.ts',
      'transport/fetch': 'src/transport/fetch.ts',
      'context/node': 'src/context/node.ts',
      'context/none': 'src/context/none.ts',
      'diagnostics/node': 'src/diagnostics/node.ts',
      'diagnostics/none': 'src/diagnostics/none.ts',
    },
    format: ['esm'],
    platform: 'neutral',
    dts: true,
    clean: ['dist/**', '!dist/vendor/**'],
    deps: { neverBundle: ['#transport', '#diagnostics', '#context', '#undici', 'undici'] },
  },
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
