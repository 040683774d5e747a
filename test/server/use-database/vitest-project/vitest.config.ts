import { defineConfig } from 'vitest/config'

const conditions = ['@batonsql/source', 'node', 'import', 'default']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  // long, so that no result depends on the speed of the machine
  test: { include: ['*.test.ts'], testTimeout: 180_000, hookTimeout: 180_000 },
})
