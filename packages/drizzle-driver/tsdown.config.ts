import { defineConfig, type UserConfig } from 'tsdown'

const shared: UserConfig = {
  format: ['esm'],
  platform: 'neutral',
  dts: true,
  deps: { neverBundle: [/^[^./]/] },
}

// Two builds, because their type declarations depend on two versions of Drizzle.
export default defineConfig([
  { ...shared, entry: ['src/index.ts', 'src/migrator.ts'], clean: ['dist/*.*'] },
  {
    ...shared,
    entry: ['src/v1/index.ts', 'src/v1/migrator.ts'],
    outDir: 'dist/v1',
    tsconfig: 'tsconfig.v1.json',
  },
])
