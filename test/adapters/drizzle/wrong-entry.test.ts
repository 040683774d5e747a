import { expect, test } from 'vitest'

test('before Drizzle 1.0, the error of the entry for 1.0 states what to import', async () => {
  // not a literal, because its types are those of another version of Drizzle
  const entry = '../../../packages/drizzle-driver/src/v1/index.ts'
  await expect(import(/* @vite-ignore */ entry)).rejects.toThrow(
    'this is drizzle-orm before 1.0: import from @batonsql/drizzle-driver, or install drizzle-orm 1.0',
  )
})
