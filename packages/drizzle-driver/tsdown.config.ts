import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: ['src/index.ts', 'src/migrator.ts'],
  format: ['esm'],
  platform: 'neutral',
  dts: true,
  deps: { neverBundle: [/^[^./]/] },
})
