import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const workspace = readFileSync(`${root}pnpm-workspace.yaml`, 'utf8')
const examples = readdirSync(`${root}examples`).filter((name) => name !== 'README.md')

interface Manifest {
  readonly version: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}
const manifestOf = (path: string): Manifest =>
  JSON.parse(readFileSync(`${root}${path}/package.json`, 'utf8')) as Manifest

/** Returns the repository's version of a package, if it has one. */
function versionOf(name: string): string | undefined {
  const folder = /^@batonsql\/(.*)$/.exec(name)?.[1]
  if (folder !== undefined) return `^${manifestOf(`packages/${folder}`).version}`
  return new RegExp(`^ {2}'?${name}'?: (\\^?\\d\\S*)$`, 'm').exec(workspace)?.[1]
}

test.each(examples)(
  '%s works outside the repository: its dependencies have plain versions, the same as the repository',
  (name) => {
    const { dependencies, devDependencies } = manifestOf(`examples/${name}`)
    for (const [dependency, version] of Object.entries({ ...dependencies, ...devDependencies })) {
      expect(version).toMatch(/^\^?\d+\.\d+\.\d+$/)
      expect(version).toBe(versionOf(dependency) ?? version)
    }
  },
)
