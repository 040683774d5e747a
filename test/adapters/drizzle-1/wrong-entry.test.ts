import { expect, test } from 'vitest'

test('the entry for Drizzle 0.x says on Drizzle 1.0 which one to import', async () => {
  // not a literal: its types are those of another Drizzle
  const entry = '../../../packages/drizzle-driver/src/index.ts'
  await expect(import(/* @vite-ignore */ entry)).rejects.toThrow(
    'this is drizzle-orm 1.0 or newer: import from @batonsql/drizzle-driver/v1',
  )
})
