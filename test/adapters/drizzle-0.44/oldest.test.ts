import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { npmVersion } from 'drizzle-orm/version'
import { expect, test } from 'vitest'

// The end-to-end tests of the driver also run on this version.

test('this is the oldest version that the driver supports', async () => {
  const manifest = await readFile(
    new URL('../../../packages/drizzle-driver/package.json', import.meta.url),
    'utf8',
  )
  const { peerDependencies } = JSON.parse(manifest) as { peerDependencies: Record<string, string> }
  expect(peerDependencies['drizzle-orm']).toContain(`>=${npmVersion} <0.46`)
})

test('the driver and its tests compile with it', async () => {
  const tsc = fileURLToPath(new URL('../../../node_modules/typescript/bin/tsc', import.meta.url))
  const project = fileURLToPath(new URL('tsconfig.json', import.meta.url))
  const compiling = promisify(execFile)(process.execPath, [tsc, '-p', project])
  await expect(compiling).resolves.toMatchObject({ stdout: '' })
})
