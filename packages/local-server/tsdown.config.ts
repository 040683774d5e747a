import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'tsdown'

const fileOf = (entry: string): string => fileURLToPath(import.meta.resolve(entry))

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    sqld: 'src/sqld.ts',
    testing: 'src/testing.ts',
    // started by name, beside the file that starts it
    'engine/engine-worker': fileOf('@batonsql/embedded-engine/engine-worker'),
  },
  format: ['esm'],
  platform: 'neutral',
  dts: true,
  // the packages in internal/ are not published: they are a part of this one
  deps: { neverBundle: [/^(?!@batonsql\/)[^./]/] },
  // read by name, beside the files that read them
  copy: [
    fileOf('@batonsql/embedded-engine/libsql.wasm'),
    dirname(fileOf('@batonsql/inspector/page/page.html')),
  ],
})
