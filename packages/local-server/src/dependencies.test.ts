import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

interface Manifest {
  readonly name: string
  readonly version: string
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
}

const ROOT = new URL('../../../', import.meta.url)
const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(new URL(`${folder}/package.json`, ROOT), 'utf8')) as Manifest
const own = manifestOf('packages/local-server')
const internal = readdirSync(new URL('internal/', ROOT)).map((name) => manifestOf(`internal/${name}`))

test.each(internal)(
  'the dependencies of $name are installed with the package that it is built into',
  (manifest) => {
    const needed = Object.entries(manifest.dependencies).filter(([name]) => !name.startsWith('@batonsql/'))
    expect(own.dependencies).toMatchObject(Object.fromEntries(needed))
  },
)

test('no unpublished package is a dependency', () => {
  expect(own.devDependencies).toEqual(
    Object.fromEntries(internal.map(({ name, version }) => [name, version])),
  )
  expect(Object.keys(own.dependencies).filter((name) => name.startsWith('@batonsql/'))).toEqual([])
})
