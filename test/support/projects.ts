import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { findTargets, type TargetName } from './targets.ts'

/** The supported versions of Kysely; the newest patch of each is tested. */
export type KyselyVersion = '0.28' | '0.29' | '0.30'
/** The version in projects that do not specify one. */
const DEFAULT_KYSELY: KyselyVersion = '0.29'

declare module 'vitest' {
  interface ProvidedContext {
    target: TargetName
    kysely: KyselyVersion
  }
}

/** Number of test files that run at a time: more than the number of cores, because most of them wait for a server. */
export const MAX_WORKERS = availableParallelism() + 2

/** Timeout of polls, which is reached only on a busy machine. */
export const POLLING = { poll: { timeout: 60_000 } }

/** Maximum number of concurrent tests in one file. Such tests spend seconds waiting. */
const MAX_CONCURRENCY = 24

const resolveFile = (name: string): string => fileURLToPath(new URL(name, import.meta.url))
/** Setup files of every project. */
export const SETUP_FILES = [
  resolveFile('restore-mocks.ts'),
  ...(process.env['TEST_SEED'] === undefined ? [] : [resolveFile('fast-check-seed.ts')]),
]
const CONTAINER_SETUP = resolveFile('libsql-container.ts')

/** Time after which a test counts as hanging. It is long, so that no result depends on the speed of the machine. */
export const TEST_TIMEOUT_MS = 180_000

/** Tests that run on each server. */
export const ON_EACH_SERVER = [
  'test/adapters/{drizzle,kysely,libsql-client,works-with}/*.test.ts',
  'test/client/*.test.ts',
  'test/client/serverless/*.test.ts',
  'test/command/on-each-server/*.test.ts',
  'test/server/real-clients.test.ts',
]
/**
 * Tests of third-party tools, of an example, of rehearsals and of commands that find a running server, which start many programs and send
 * the same requests to each server. They run on one server only, except before a release. `test/command/on-our-servers/migrate.test.ts`
 * rehearses on each server.
 */
const SLOW_PROGRAMS = [
  'test/adapters/drizzle/kit.test.ts',
  'test/adapters/kysely/tools.test.ts',
  'test/command/on-each-server/rehearse.test.ts',
  'test/command/on-our-servers/{branch-database,running-server}.test.ts',
  'test/platform/migrate-tenants.test.ts',
]

/** Slow tests of what rarely fails alone. `npm test` without arguments leaves them out, as scripts/test-parts.mjs prints. */
const LEFT_OUT: Readonly<Record<string, readonly string[]>> = {
  unit: [
    'test/command/{command,platform,sql}.test.ts',
    'test/docs/{examples,readme}/*.test.ts',
    'test/generated/linear-scans/*.test.ts',
    'test/generated/simulation/model.test.ts',
    'test/server/{crash,durability,full-disk,other-program,preemption,response-limit,schema-crash}.test.ts',
    'test/server/use-database/{processes,runners,templates}.test.ts',
    'internal/embedded-engine/src/engine/other-program.test.ts',
  ],
  security: [
    'test/security/{browser,directory-lock,inspector,inspector-data,large-bodies,server-survives,smuggling,unsafe-functions,web-pages}.test.ts',
  ],
  embedded: [
    ...SLOW_PROGRAMS,
    'test/adapters/works-with/*.test.ts',
    'test/adapters/libsql-client/differential.test.ts',
    'test/client/{generated-dumps,histories}.test.ts',
    'test/command/on-each-server/{import,rehearse,sql}.test.ts',
    'test/command/on-our-servers/*.test.ts',
    'test/platform/{crash,ended-access,ended-attach,key-sets}.test.ts',
    'test/server/real-clients.test.ts',
  ],
  sqld: [
    // one of them starts a primary with replicas
    'test/server/cluster/!(self-hosting).test.ts',
    // these depend on the client, the libraries and the command more than on the server
    'test/adapters/works-with/*.test.ts',
    'test/adapters/kysely/{crud,faults,generated-batches,introspection,json,migrations,not-awaited,signals,stream,versions}.test.ts',
    'test/adapters/drizzle/{blobs,faults,integers,migrate,queries,relations,wrong-entry}.test.ts',
    'test/command/on-each-server/*.test.ts',
    'test/command/on-our-servers/*.test.ts',
    'test/client/{aborted-calls,exact-dumps,generated-dumps,histories,inserted-rowids}.test.ts',
    'test/client/serverless/*.test.ts',
    'test/platform/{authorization,backup,crash,ended-access,exports,group-processes,key-sets,organizations,replicas,tls-proxy,transfers}.test.ts',
    'test/server/real-clients.test.ts',
  ],
}

/** Returns the files of a project that this run leaves out. */
export const leftOut = (project: string): readonly string[] =>
  process.env['BATON_TEST_EXCLUDED'] === undefined ? [] : (LEFT_OUT[project] ?? [])
/** Tests of the platform API, through the client and through the command. */
const ON_OUR_SERVERS = ['test/platform/*.test.ts', 'test/command/on-our-servers/*.test.ts']

/** One vitest project for each server that can be tested against. */
export async function endToEndProjects() {
  const targets = await findTargets()
  return targets
    .filter((target) => target.unavailableReason === null)
    .map(({ name }) => ({
      name,
      include: [
        ...ON_EACH_SERVER,
        // suites that other projects publish
        ...(process.env['TEST_RELEASE'] !== undefined && (name === 'sqld' || name === 'embedded')
          ? ['test/adapters/works-with/suites/*.test.ts']
          : []),
        // a cluster consists of real servers
        ...(name === 'sqld' ? ['test/server/cluster/*.test.ts'] : []),
        // only our servers have the platform API
        ...(name === 'sqld' || name === 'embedded' ? ON_OUR_SERVERS : []),
      ],
      exclude: [
        ...(name === 'embedded' || process.env['TEST_RELEASE'] !== undefined ? [] : SLOW_PROGRAMS),
        ...leftOut(name),
      ],
      testTimeout: TEST_TIMEOUT_MS,
      hookTimeout: TEST_TIMEOUT_MS,
      expect: POLLING,
      maxConcurrency: MAX_CONCURRENCY,
      // files share a process, because a process for each file would take a quarter of the CPU time
      isolate: false,
      setupFiles: [...SETUP_FILES, resolveFile('clean-up-hooks.ts')],
      provide: { target: name, kysely: DEFAULT_KYSELY },
      // the database is shared, so the files run one at a time
      maxWorkers: name === 'url' ? 1 : MAX_WORKERS,
      ...(name === 'container' && { globalSetup: CONTAINER_SETUP }),
    }))
}

/** Tests that start their own servers, with the server program from the image. */
export async function imageProjects() {
  const projects = await endToEndProjects()
  return projects
    .filter(({ name }) => name === 'container')
    .map((project) => ({
      ...project,
      name: 'container-sqld',
      include: ['test/server/cluster/*.test.ts', ...ON_OUR_SERVERS],
      setupFiles: [...project.setupFiles, resolveFile('sqld-from-image.ts')],
      provide: { ...project.provide, target: 'sqld' as const },
    }))
}

/**
 * The server on which other versions of Kysely and Drizzle are tested. Differences between versions do not depend on the
 * server, so each version runs on all servers only with `TEST_RELEASE=1`, which `npm test -- release` sets.
 */
const SERVER_BY_VERSION: Readonly<Record<string, TargetName>> = {
  'drizzle-0.44': 'embedded',
  'kysely-0.28': 'sqld',
  'kysely-0.30': 'embedded',
}
const isTested = (name: string, target: string): boolean =>
  (SERVER_BY_VERSION[name] ?? target) === target || process.env['TEST_RELEASE'] !== undefined

/** Versions of Drizzle other than the one in the end-to-end tests, and the tests that run on each. */
const DRIZZLE_VERSIONS = [
  {
    name: 'drizzle-0.44',
    include: [
      'test/adapters/drizzle-0.44/*.test.ts',
      'test/adapters/drizzle/*.test.ts',
      'packages/drizzle-driver/src/internals.test.ts',
    ],
    // drizzle-kit has its own copy of Drizzle
    exclude: ['test/adapters/drizzle/kit.test.ts'],
    alias: [],
  },
  {
    name: 'drizzle-1',
    include: [
      'test/adapters/drizzle-1/*.test.ts',
      'test/adapters/drizzle/{blobs,contract,faults,integers,optimistic,queries,transactions}.test.ts',
    ],
    exclude: [],
    alias: [
      { find: /^@batonsql\/drizzle-driver(?=$|\/migrator$)/, replacement: '@batonsql/drizzle-driver/v1' },
    ],
  },
]

/** The same servers, with another version of Drizzle under the same name. */
export async function drizzleProjects() {
  const projects = await endToEndProjects()
  return DRIZZLE_VERSIONS.flatMap(({ name, alias, ...files }) =>
    projects
      .filter((project) => isTested(name, project.name))
      .map((project) => ({
        alias: [
          ...alias,
          { find: /^drizzle-orm(?=\/|$)/, replacement: name.replace('drizzle', 'drizzle-orm') },
        ],
        test: { ...project, name: `${project.name}-${name}`, ...files },
      })),
  )
}

/** All tests of the Kysely dialect, with other versions of Kysely under the same name. */
export async function kyselyProjects() {
  const projects = await endToEndProjects()
  return (['0.28', '0.30'] as const).flatMap((version) =>
    projects
      .filter((project) => isTested(`kysely-${version}`, project.name))
      .map((project) => ({
        alias: kyselyAliases(version),
        test: {
          ...project,
          name: `${project.name}-kysely-${version}`,
          include: ['test/adapters/kysely/*.test.ts'],
          // kysely-ctl has its own copy of Kysely
          exclude: ['test/adapters/kysely/tools.test.ts'],
          provide: { ...project.provide, kysely: version },
        },
      })),
  )
}

function kyselyAliases(version: KyselyVersion) {
  const entry = import.meta.resolve(`kysely-${version}`)
  const file = (path: string): string => fileURLToPath(new URL(path, entry))
  // in 0.28 the Migrator is part of the main entry
  const migration = version === '0.28' ? 'index.js' : 'migration/index.js'
  return [
    { find: /^kysely$/, replacement: fileURLToPath(entry) },
    { find: /^kysely\/migration$/, replacement: file(migration) },
    { find: /^kysely\/helpers\/sqlite$/, replacement: file('helpers/sqlite.js') },
  ]
}
