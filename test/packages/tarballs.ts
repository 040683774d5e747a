import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pnpm, ROOT, run } from './run.ts'

/** Folders of the packages that are published. */
export const FOLDERS = readdirSync(join(ROOT, 'packages'))

export interface Manifest {
  readonly name: string
  readonly version: string
  readonly engines: { readonly node: string }
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly imports?: Readonly<Record<string, unknown>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly [field: string]: unknown
}

/** A packed package. */
export interface Tarball {
  readonly file: string
  readonly manifest: Manifest
  /** Paths in the tarball, without `package/`. */
  readonly files: readonly string[]
  read(path: string): Promise<string>
}

export const manifestOf = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(ROOT, 'packages', folder, 'package.json'), 'utf8')) as Manifest

/** Packs a package. With scripts, it is built first. */
export async function pack(
  tool: 'npm' | 'pnpm',
  folder: string,
  destination: string,
  scripts = false,
): Promise<Tarball> {
  const cwd = join(ROOT, 'packages', folder)
  const args = ['pack', '--pack-destination', destination, ...(scripts ? [] : ['--ignore-scripts'])]
  await (tool === 'npm' ? run(['npm', ...args], { cwd }) : pnpm(args, { cwd }))
  return await openTarball(folder, destination)
}

/** Opens the tarball of a package. @param packed the folder with the tarballs */
export async function openTarball(folder: string, packed: string): Promise<Tarball> {
  const { name, version } = manifestOf(folder)
  const file = join(packed, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`)
  const read = (path: string): Promise<string> =>
    run(['tar', '-xzOf', file, `package/${path}`], { cwd: ROOT })
  const paths = (await run(['tar', '-tzf', file], { cwd: ROOT })).trim().split('\n')
  const files = paths.map((path) => path.replace(/^package\//, '')).sort()
  return { file, files, read, manifest: JSON.parse(await read('package.json')) as Manifest }
}
