import { readFileSync } from 'node:fs'
import { LIBRARIES } from '../packages/libraries.ts'

/** A library that is tested on top of ours, and the tests that count toward it. */
export interface LibraryTests {
  readonly library: string
  /** The package whose version is recorded. */
  readonly packageName: string
  /** The package through which it reaches a database. */
  readonly through: 'Kysely' | 'Drizzle' | '@batonsql/libsql-client'
  /** The package of a suite that another project publishes; absent for our own tests. */
  readonly suite?: string
  readonly file: string
  /** Prefix of the full names of its tests, if the file also contains other tests. */
  readonly tests?: string
  /** The folder in which it is installed; absent for packages that `test/packages` installs. */
  readonly installedIn?: string
}

const worksWithFile = (file: string): string => `test/adapters/works-with/${file}.test.ts`
const OVERRIDES_FILE = 'test/packages/overrides.test.ts'
const createOverrideTests = (
  library: string,
  packageName: keyof typeof LIBRARIES,
  test: string,
): LibraryTests => ({
  library,
  packageName,
  through: '@batonsql/libsql-client',
  file: OVERRIDES_FILE,
  tests: `libraries with @libsql/client inside > ${test}`,
})
const installedIn = 'test'

export const LIBRARY_TESTS: readonly LibraryTests[] = [
  ...(['Kysely', 'Drizzle'] as const).flatMap((through): LibraryTests[] => {
    const library = { library: 'better-auth', packageName: 'better-auth', through, installedIn }
    const name = through.toLowerCase()
    const tests = `better-auth's suite with ${name}`
    return [
      { ...library, suite: '@better-auth/test-utils', file: worksWithFile('suites/better-auth'), tests },
      { ...library, file: worksWithFile('better-auth'), tests: `better-auth with ${name}` },
      {
        ...library,
        library: 'Auth.js',
        packageName: `@auth/${name}-adapter`,
        file: worksWithFile('auth-js'),
        tests: `Auth.js with ${name}`,
      },
    ]
  }),
  {
    library: 'MikroORM',
    packageName: '@mikro-orm/sql',
    through: 'Kysely',
    file: worksWithFile('suites/mikro-orm'),
    installedIn,
  },
  {
    library: 'ZenStack',
    packageName: '@zenstackhq/orm',
    through: 'Kysely',
    file: worksWithFile('zenstack'),
    installedIn,
  },
  ...['kysely-ctl', 'kysely-codegen'].map((library) => ({
    library,
    packageName: library,
    through: 'Kysely' as const,
    file: 'test/adapters/kysely/tools.test.ts',
    tests: library,
    installedIn: 'examples/kysely-tools',
  })),
  {
    library: 'drizzle-seed',
    packageName: 'drizzle-seed',
    through: 'Drizzle',
    file: worksWithFile('drizzle-seed'),
    installedIn,
  },
  {
    library: 'drizzle-kit',
    packageName: 'drizzle-kit',
    through: 'Drizzle',
    file: 'test/adapters/drizzle/kit.test.ts',
    installedIn,
  },
  createOverrideTests('Prisma', '@prisma/adapter-libsql', 'prisma'),
  createOverrideTests('Payload', '@payloadcms/db-sqlite', 'payload'),
  createOverrideTests('Mastra', '@mastra/libsql', 'mastra'),
  createOverrideTests('Auth.js', '@auth/drizzle-adapter', 'auth'),
  createOverrideTests('drizzle-kit', 'drizzle-kit', 'drizzle-kit'),
]

/** The results of a run, for one library on one server. */
export interface Figure {
  readonly version: string
  readonly passed: number
  readonly total: number
}

export const FIGURES_FILE = new URL('../fixtures/works-with.json', import.meta.url)
export const readFigures = (): Record<string, Figure> =>
  JSON.parse(readFileSync(FIGURES_FILE, 'utf8')) as Record<string, Figure>

const SERVERS = ['embedded', 'sqld'] as const
export const figureKey = ({ file, tests = '', packageName, through }: LibraryTests, server: string): string =>
  [packageName, through, file, tests, server].join(' | ')

/** Returns the version that is installed, or that `test/packages` installs. */
export function getVersion({ packageName, installedIn }: LibraryTests): string {
  if (installedIn === undefined) return LIBRARIES[packageName as keyof typeof LIBRARIES]
  return getInstalledVersion(packageName, installedIn)
}

function getInstalledVersion(packageName: string, folder: string): string {
  const manifest = new URL(`../../${folder}/node_modules/${packageName}/package.json`, import.meta.url)
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
}

/** The servers on which the tests of a library run. */
export const serversOf = ({ installedIn }: LibraryTests): readonly string[] =>
  installedIn === undefined ? ['embedded'] : SERVERS

/** Returns the table of docs/works-with.md, with the recorded figures. */
export function libraryTable(): string {
  const figures = readFigures()
  const rows = LIBRARY_TESTS.map((entry) => {
    const { library, packageName, through, suite, file, installedIn } = entry
    const counts = serversOf(entry).map((server) => {
      const figure = figures[figureKey(entry, server)]
      return figure === undefined ? 'not recorded' : `${figure.passed} of ${figure.total} (${server})`
    })
    const tests =
      suite && installedIn
        ? `\`${suite}\` ${getInstalledVersion(suite, installedIn)}`
        : `ours: [\`${file.split('/').at(-1)}\`](../${file})`
    return `| ${library} | \`${packageName}\` ${getVersion(entry)} | ${through} | ${tests} | ${counts.join(', ')} |`
  })
  return ['| library | version | through | tests | passed |', '|---|---|---|---|---|', ...rows, ''].join('\n')
}
