import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildPage } from '@batonsql/inspector/build-page'
import { defineConfig } from 'tsdown'

const resolveFile = (entry: string): string => fileURLToPath(import.meta.resolve(entry))

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    sqld: 'src/sqld.ts',
    testing: 'src/testing.ts',
    vitest: 'src/vitest.ts',
    // started by name, in the same folder as the file that starts it
    'run-server': 'src/run-server.ts',
    // started by name, in the same folder as the file that starts it
    'engine/engine-worker': resolveFile('@batonsql/embedded-engine/engine-worker'),
  },
  format: ['esm'],
  platform: 'neutral',
  dts: true,
  // the packages in internal/ are not published; they are bundled into this one
  deps: { neverBundle: [/^(?!@batonsql\/)[^./#]/] },
  // read by name, in the same folder as the files that read them
  copy: [resolveFile('@batonsql/embedded-engine/libsql.wasm')],
  hooks: {
    async 'build:done'() {
      const folder = fileURLToPath(new URL('dist/page/', import.meta.url))
      await mkdir(folder, { recursive: true })
      for (const [name, text] of await buildPage()) await writeFile(join(folder, name), text)
    },
  },
})
