import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: ['src/node.ts', 'src/web.ts', 'src/http.ts', 'src/ws.ts', 'src/sqlite3.ts'],
  format: ['esm'],
  platform: 'neutral',
  dts: true,
  deps: { neverBundle: [/^[^./]/] },
})
