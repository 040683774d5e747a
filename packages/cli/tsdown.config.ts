import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: ['src/cli.ts'],
  format: ['esm'],
  platform: 'neutral',
  dts: false,
  deps: { neverBundle: [/^[^./]/] },
})
