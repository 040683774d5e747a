import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    sqld: 'src/sqld.ts',
    testing: 'src/testing.ts',
    // started by name, beside the file that starts it
    'engine/engine-worker': 'src/embedded/engine/engine-worker.ts',
  },
  format: ['esm'],
  platform: 'neutral',
  dts: true,
  deps: { neverBundle: [/^[^./]/] },
})
