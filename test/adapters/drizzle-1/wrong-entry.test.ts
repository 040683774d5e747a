import { expect, test } from 'vitest'

test('on Drizzle 1.0, the error of the entry for Drizzle 0.x states which entry to import', async () => {
  // not a literal, because its types are those of another version of Drizzle
  const entry = '../../../packages/drizzle-driver/src/index.ts'
  await expect(import(/* @vite-ignore */ entry)).rejects.toThrow(
    'this is drizzle-orm 1.0 or newer: import from @batonsql/drizzle-driver/v1',
  )
})
