import { readFile } from 'node:fs/promises'
import { BatonAdapter, BatonIntrospector } from '@batonsql/kysely-dialect'
import * as kysely from 'kysely'
import { expect, inject, test } from 'vitest'

test('the tests and the dialect use the Kysely of this project', () => {
  const expectedExports = {
    '0.28': { Migrator: true, AbortedTransactionError: false, QueryFinalizer: false },
    '0.29': { Migrator: false, AbortedTransactionError: true, QueryFinalizer: true },
    '0.30': { Migrator: false, AbortedTransactionError: false, QueryFinalizer: true },
  }[inject('kysely')]
  for (const [name, isExported] of Object.entries(expectedExports))
    expect([name, name in kysely]).toEqual([name, isExported])
  expect(new BatonAdapter()).toBeInstanceOf(kysely.SqliteAdapter)
  expect(BatonIntrospector.prototype).toBeInstanceOf(kysely.SqliteIntrospector)
})

test('the peer dependency admits this version, which npm would otherwise refuse to install', async () => {
  const readJson = async (path: string): Promise<Record<string, Record<string, string>>> =>
    JSON.parse(await readFile(new URL(path, import.meta.url), 'utf8'))
  const { peerDependencies } = await readJson('../../../packages/kysely-dialect/package.json')
  const { dependencies } = await readJson('../../package.json')
  const version = dependencies?.[`kysely-${inject('kysely')}`]?.replace('npm:kysely@', '') ?? ''
  // a range admits a prerelease only if it names one of the same version
  const [, release, prerelease] = /^([\d.]+)-(\w+)/.exec(version) ?? []
  if (prerelease) expect(peerDependencies?.['kysely']).toContain(`>=${release}-${prerelease}`)
  else expect(peerDependencies?.['kysely']).toMatch(/^>=0\.28\.0 <0\.31\.0( |$)/)
})
