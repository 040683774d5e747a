import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: ['src/index.ts'],
  format: ['esm'],
  platform: 'neutral',
  dts: true,
  outputOptions: { comments: { annotation: true, legal: true, jsdoc: false } },
})
