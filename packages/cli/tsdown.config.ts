import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: ['src/cli.ts'],
  format: ['esm'],
  platform: 'neutral',
  dts: false,
  // these parts are not published
  deps: { neverBundle: [/^(?!@batonsql\/(?:inspector|server-common))[^./]/] },
})
