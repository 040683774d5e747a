import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: { index: 'src/index.ts', sqld: 'src/sqld/entry.ts' },
  format: ['esm'],
  platform: 'neutral',
  dts: true,
  deps: { neverBundle: [/^[^./]/] },
})
