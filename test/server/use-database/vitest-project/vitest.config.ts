import { defineConfig } from 'vitest/config'

const conditions = ['@batonsql/source', 'node', 'import', 'default']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: ['*.test.ts'],
    // long, so that no result depends on the speed of the machine
    testTimeout: 180_000,
    hookTimeout: 180_000,
    globalSetup: process.env['SHARED_SERVER'] === undefined ? [] : ['@batonsql/local-server/vitest'],
  },
})
