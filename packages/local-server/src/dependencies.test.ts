import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

interface Manifest {
  readonly name: string
  readonly version: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
}

const ROOT = new URL('../../../', import.meta.url)
const readManifest = (folder: string): Manifest =>
  JSON.parse(readFileSync(new URL(`${folder}/package.json`, ROOT), 'utf8')) as Manifest
const ownManifest = readManifest('packages/local-server')
const internalManifests = readdirSync(new URL('internal/', ROOT)).map((name) =>
  readManifest(`internal/${name}`),
)

test.each(internalManifests)(
  'the dependencies of $name are also dependencies of this package',
  (manifest) => {
    const externalDependencies = Object.entries(manifest.dependencies ?? {}).filter(
      ([name]) => !name.startsWith('@batonsql/'),
    )
    expect(ownManifest.dependencies).toMatchObject(Object.fromEntries(externalDependencies))
  },
)

test('does not depend on an unpublished package', () => {
  expect(ownManifest.devDependencies).toMatchObject(
    Object.fromEntries(internalManifests.map(({ name, version }) => [name, version])),
  )
  const unpublished = internalManifests.map(({ name }) => name)
  expect(Object.keys(ownManifest.dependencies ?? {}).filter((name) => unpublished.includes(name))).toEqual([])
})
