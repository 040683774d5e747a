import { defineConfig } from 'tsdown'

export default defineConfig({
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
  deps: { neverBundle: ['#transport', '#diagnostics', '#context', 'undici'] },
})
