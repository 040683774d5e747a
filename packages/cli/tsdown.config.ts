import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: ['src/cli.ts'],
  format: ['esm'],
  platform: 'neutral',
  dts: false,
  // the model of the inspector is not published, so `baton mcp` bundles it
  deps: { neverBundle: [/^(?!@batonsql\/inspector)[^./]/] },
})
