/** The tests that should detect the mutations of a package, fastest first. */
export interface MutatedPackage {
  /** Files of the package that are mutated, relative to `src`. @default all */
  readonly files?: RegExp
  /** Whether the simulation runs first. */
  readonly isSimulated?: boolean
  /** Test files, or folders of them, by the project of vitest.config.ts that runs them. */
  readonly tests: readonly (readonly [project: string, ...paths: string[]])[]
}

const platform = (...names: readonly string[]): string[] => names.map((name) => `test/platform/${name}`)
const client = (...names: readonly string[]): string[] => names.map((name) => `test/client/${name}`)
const server = (...names: readonly string[]): string[] => names.map((name) => `test/server/${name}`)
const engine = (...names: readonly string[]): string[] =>
  names.map((name) => `internal/embedded-engine/src/${name}`)

export const PACKAGES: Readonly<Record<string, MutatedPackage>> = {
  core: {
    // the code that creates, writes and reads transactions, streams and requests
    files: /^(client|codec|http|request|sql|stream)\//,
    isSimulated: true,
    tests: [
      ['unit', 'packages/core', 'test/tursodb/execute-only'],
      [
        'embedded',
        ...client('cursor', 'execute-only', 'ignored-conditions', 'scripts', 'structured', 'transactions'),
      ],
    ],
  },
  'kysely-dialect': {
    tests: [
      ['unit', 'packages/kysely-dialect', 'test/tursodb/kysely'],
      ['embedded', 'test/adapters/kysely'],
    ],
  },
  'drizzle-driver': {
    tests: [
      ['unit', 'packages/drizzle-driver'],
      ['embedded', 'test/adapters/drizzle'],
      ['embedded-drizzle-1', 'test'],
    ],
  },
  'libsql-client': { tests: [['embedded', 'test/adapters/libsql-client']] },
  platform: {
    tests: [
      ['unit', 'packages/platform'],
      ['embedded', 'test/platform'],
    ],
  },
  cli: {
    tests: [
      ['unit', 'packages/cli', 'test/command'],
      ['embedded', 'test/command'],
    ],
  },
  'local-server': {
    tests: [
      ['unit', 'packages/local-server'],
      ['unit', 'test/server', 'test/command'],
      ['security', 'test/security'],
      ['embedded', 'test/platform', 'test/command'],
      ['sqld', 'test/platform', 'test/client/database-api', 'test/client/errors'],
    ],
  },
  'server-common': {
    tests: [
      ['unit', 'internal', 'packages/local-server'],
      ['embedded', 'test/platform', 'test/client'],
      ['sqld', 'test/platform', 'test/client'],
    ],
  },
  'embedded-engine': {
    tests: [
      // its other tests concern the C code, and take a minute
      [
        'unit',
        ...engine(
          'database-worker',
          'protocol',
          'engine/database',
          'engine/leftovers',
          'engine/mark',
          'engine/power',
          'engine/write',
        ),
      ],
      ['embedded', ...client('contract', 'cursor', 'errors', 'scripts', 'transactions', 'values')],
      ['unit', ...server('attach', 'dialect', 'preemption', 'streams', 'values')],
      [
        'embedded',
        ...client('database-api', 'listen', 'schema'),
        ...platform('block', 'databases', 'exports'),
      ],
      ['unit', 'packages/local-server/src/embedded/deleted', ...server('engine', 'files')],
    ],
  },
  'sqld-gateway': {
    tests: [
      ['unit', 'internal/sqld-gateway', 'packages/local-server/src/server/sqld-backend'],
      [
        'sqld',
        ...platform('block', 'database-api', 'metrics', 'failed-replicas'),
        ...client('contract', 'errors'),
      ],
      [
        'sqld',
        ...platform('backup', 'databases', 'ended-attach', 'exports', 'group-processes', 'replicas'),
        ...platform('snapshots'),
      ],
      [
        'sqld',
        ...platform('ended-access', 'readers', 'tokens'),
        ...client('database-api', 'schema-databases'),
        'test/server/cluster/client-disconnects',
      ],
      ['unit', 'test/server/full-disk'],
    ],
  },
  'control-plane': {
    tests: [
      ['unit', 'internal/control-plane', 'packages/local-server/src/server/service.test'],
      [
        'embedded',
        ...platform('allowed-ips', 'bad-input', 'command-line', 'documented', 'organizations', 'recorded'),
        ...platform('database-api', 'version-3'),
      ],
      [
        'embedded',
        ...platform('authorization', 'backup', 'block', 'databases', 'exports', 'key-sets', 'metrics'),
        ...platform('official', 'snapshots', 'tenants', 'tokens', 'transfers'),
      ],
      ['security', 'test/security/lost-registry'],
      ['sqld', ...platform('failed-replicas', 'group-processes', 'key-sets', 'replicas')],
    ],
  },
  inspector: {
    tests: [
      ['unit', 'internal/inspector'],
      ['security', 'test/security/inspector'],
    ],
  },
}
