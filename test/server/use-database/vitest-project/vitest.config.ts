import { defineConfig } from 'vitest/config'

const conditions = ['@batonsql/source', 'node', 'import', 'default']

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: { include: ['*.test.ts'] },
})
