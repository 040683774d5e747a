import { globSync, mkdirSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { run } from './run.ts'

/** A published package that contains SQLite files. */
interface DatabasePackage {
  readonly name: string
  readonly version: string
  readonly registry: 'npm' | 'PyPI'
  /** Pattern of its files that are databases. */
  readonly files: string
}

/** Databases that other people's programs have written: dictionaries, chemical elements, map projections, GeoPackages with R*Trees. */
export const PACKAGES: readonly DatabasePackage[] = [
  { name: 'wordnet-sqlite', version: '1.0.3', registry: 'npm', files: 'package/wordnet.dict' },
  { name: 'mendeleev', version: '1.3.0', registry: 'PyPI', files: 'mendeleev/elements.db' },
  {
    name: 'libpysal',
    version: '4.14.1',
    registry: 'PyPI',
    files: 'libpysal/cg/tests/data/{alpha_05,eberly}*.gpkg',
  },
  {
    name: 'pyogrio',
    version: '0.13.0',
    registry: 'PyPI',
    files: 'pyogrio/{proj_data/*.db,tests/fixtures/*.gpkg}',
  },
]

/**
 * Downloads a package and returns copies of its databases with pages of 4,096 bytes, which libsql-server needs.
 * @throws Error if the registry or the tool is not available
 */
export async function downloadDatabases(source: DatabasePackage, folder: string): Promise<string[]> {
  const cwd = join(folder, source.name)
  mkdirSync(cwd)
  const { name, version } = source
  if (source.registry === 'npm') {
    await run(['npm', 'pack', '--silent', `${name}@${version}`], { cwd })
    await run(['tar', '-xzf', ...readdirSync(cwd)], { cwd })
  } else {
    const platform = [
      '--only-binary',
      ':all:',
      '--python-version',
      '311',
      '--platform',
      'manylinux_2_28_x86_64',
    ]
    await run(
      ['python3', '-m', 'pip', 'download', '--quiet', '--no-deps', ...platform, `${name}==${version}`],
      { cwd },
    )
    await run(['python3', '-m', 'zipfile', '-e', ...readdirSync(cwd), '.'], { cwd })
  }
  return globSync(source.files, { cwd }).map((file) => {
    const copy = join(folder, `${basename(file)}.db`)
    using database = new DatabaseSync(join(cwd, file))
    database.exec('pragma page_size = 4096')
    database.prepare('vacuum into ?').run(copy)
    return copy
  })
}
