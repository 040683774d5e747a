import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, posix } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { ROOT, run } from './run.ts'
import { FOLDERS, manifestOf, openTarball, pack, type Tarball } from './tarballs.ts'

const folder = createTemporaryDirectory(afterAll)

/** The alias under which the drop-in installs the package that it replaces. */
const ORIGINAL_ALIAS = 'libsql-client-original'

/** Returns the files named in a field of package.json at any depth, except under the condition that only the workspace sets. */
function listTargets(value: unknown): string[] {
  if (typeof value === 'string') return value.startsWith('./') ? [value.slice(2)] : []
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, target]) =>
    name === '@batonsql/source' ? [] : listTargets(target),
  )
}

describe.each(FOLDERS)('%s', (name) => {
  let npmTarball: Tarball
  let pnpmTarball: Tarball
  beforeAll(async () => {
    npmTarball = await openTarball(name, inject('packed'))
    pnpmTarball = await pack('pnpm', name, folder)
  }, 180_000)

  test('is packed identically by npm and pnpm', () => {
    expect(pnpmTarball.files).toEqual(npmTarball.files)
    const { scripts: _, ...manifest } = npmTarball.manifest
    const { scripts: __, ...pnpmManifest } = pnpmTarball.manifest
    expect(pnpmManifest).toEqual(manifest)
  })

  test('is built before it is packed', () => {
    expect(npmTarball.manifest['scripts']).toMatchObject({ prepack: 'node ../../scripts/prepack.mjs' })
  })

  test('depends on plain registry versions', () => {
    expect(JSON.stringify(npmTarball.manifest)).not.toMatch(/"(workspace|catalog|file|link):/)
    for (const workspacePackage of FOLDERS.map(manifestOf)) {
      const range = npmTarball.manifest.dependencies?.[workspacePackage.name]
      if (range !== undefined)
        expect([workspacePackage.name, range]).toEqual([
          workspacePackage.name,
          `^${workspacePackage.version}`,
        ])
    }
  })

  test('has the dependency versions of the workspace', () => {
    const catalog = readFileSync(join(ROOT, 'pnpm-workspace.yaml'), 'utf8')
    const { dependencies, devDependencies } = manifestOf(name)
    for (const [dependency, range] of Object.entries({ ...dependencies, ...devDependencies })) {
      const [, inCatalog] = new RegExp(`^  '?${dependency}'?: (\\S+)$`, 'm').exec(catalog) ?? []
      if (inCatalog !== undefined) expect([dependency, range]).toEqual([dependency, inCatalog])
    }
  })

  test('refers only to files in the tarball', () => {
    const { exports, imports, bin } = npmTarball.manifest
    const files = listTargets([exports, imports, bin])
    expect(files.length).toBeGreaterThan(0)
    expect(files.filter((file) => !npmTarball.files.includes(file))).toEqual([])
  })

  test('imports only packages listed in its manifest', async () => {
    const scripts = npmTarball.files.filter((file) => /\.[cm]?js$/.test(file))
    expect(scripts.length).toBeGreaterThan(0)
    const { metafile } = await build({
      absWorkingDir: join(ROOT, 'packages', name),
      entryPoints: scripts.map((file, index) => ({ in: file, out: String(index) })),
      bundle: true,
      packages: 'external',
      platform: 'node',
      format: 'esm',
      write: false,
      outdir: 'unused',
      metafile: true,
    })
    const importedPaths = Object.values(metafile.inputs).flatMap(({ imports }) =>
      imports.map(({ path }) => path),
    )
    const { name: ownName, dependencies, peerDependencies, imports } = npmTarball.manifest
    const packages = [
      ownName,
      ORIGINAL_ALIAS,
      ...Object.keys({ ...dependencies, ...peerDependencies, ...imports }),
    ]
    const isListed = (path: string): boolean =>
      packages.some((name) => path === name || path.startsWith(`${name}/`))
    expect(
      importedPaths.filter((path) => !isBuiltin(path) && !scripts.includes(path) && !isListed(path)),
    ).toEqual([])
  })

  test('contains no sources, no tests and no tarballs', () => {
    expect(npmTarball.files.filter((file) => /(?<!\.d)\.[cm]?ts$|tsconfig|\.tgz$/.test(file))).toEqual([])
  })

  test('has a license, a changelog, and a repository URL', async () => {
    expect(await npmTarball.read('LICENSE')).toBe(readFileSync(join(ROOT, 'LICENSE'), 'utf8'))
    expect(await npmTarball.read('CHANGELOG.md')).toMatch(new RegExp(`^# ${npmTarball.manifest.name}\n`))
    expect(npmTarball.manifest).toMatchObject({
      license: 'MIT',
      keywords: expect.arrayContaining(['libsql', 'sqlite']) as unknown,
      homepage: expect.stringContaining(`packages/${name}`) as unknown,
      bugs: expect.stringContaining('/issues') as unknown,
      repository: { type: 'git', directory: `packages/${name}` },
    })
  })

  test('contains documents whose links point to files in the tarball or to URLs', async () => {
    for (const page of npmTarball.files.filter((file) => file.endsWith('.md'))) {
      for (const [, link = ''] of (await npmTarball.read(page)).matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^(https:|#)/.test(link)) continue
        const [file = ''] = link.split('#')
        expect([page, link, npmTarball.files.includes(posix.join(dirname(page), file))]).toEqual([
          page,
          link,
          true,
        ])
      }
    }
  })

  test('is not published with the placeholder URL of the repository', async () => {
    const publish = run(['npm', 'run', 'prepublishOnly'], { cwd: join(ROOT, 'packages', name) })
    if (JSON.stringify(npmTarball.manifest).includes('repository.invalid'))
      await expect(publish).rejects.toThrow(/replace the placeholder .* with the address of the repository/)
    else await publish
  })
})
