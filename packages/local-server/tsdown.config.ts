import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: {
    index: 'src/index.ts',
    sqld: 'src/sqld.ts',
    cli: 'src/cli.ts',
    // started as programs of their own, found by name beside the file that starts them
    'host-process': 'src/embedded/host-process.ts',
    'host-watchdog': 'src/embedded/host-watchdog.ts',
  },
  format: ['esm'],
  platform: 'neutral',
  dts: true,
  deps: { neverBundle: [/^[^./]/] },
})
