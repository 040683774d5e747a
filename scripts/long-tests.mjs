// The long versions of tests, which `npm test -- NAME` runs. The environment overrides their settings; TEST_SEED repeats a run.
import { spawnSync } from 'node:child_process'
import { VITEST } from './test-run.mjs'

const SOURCE = '--conditions=@batonsql/source'

/** The runs, by name: Node's arguments, which those of the command line follow. */
export const LONG_TESTS = {
  /**
   * The fault tests on every server: thousands of transactions, tens of thousands of writes, ten thousand writes followed by a read
   * through replicas, ten thousand histories of list appends, two thousand calls to the platform API while its server is killed, five
   * thousand concurrent ones, and a hundred migrations of shared schemas.
   */
  faults: {
    env: {
      FAULT_LONG: '1',
      FAULT_TRANSACTIONS: '2000',
      FAULT_DISRUPTIONS: '10',
      FAULT_WRITES: '20000',
      FAULT_PAIRS: '10000',
      FAULT_APPENDS: '10000',
      FAULT_PLATFORM_CALLS: '2000',
      CRASH_ROUNDS: '100',
      GENERATED_CHANGES: '800',
      FAULT_TIMEOUT_MS: '7200000',
    },
    args: [
      ...VITEST,
      '--no-file-parallelism',
      ...['faults', 'histories', 'ended-transactions'].map((name) => `test/client/${name}.test.ts`),
      ...['crash', 'generated-changes'].map((name) => `test/platform/${name}.test.ts`),
      'test/server/schema-crash.test.ts',
      'test/server/cluster',
    ],
  },
  /**
   * The generated tests: ten thousand sequences on the embedded server and on the real libsql-server, a hundred thousand requests to
   * the embedded server, dumps, events, jobs and attached databases on both, and every recorded case on libsql-server.
   */
  fuzz: {
    env: {
      FUZZ_SEQUENCES: '10000',
      FUZZ_REQUESTS: '100000',
      ROUTE_CASES: '500',
      DRIFT_EVERY: '1',
      ATTACK_STATEMENTS: '1000',
    },
    args: [
      ...VITEST,
      '--project=unit',
      '--project=security',
      'test/generated/differential',
      'security/requests',
      'server/drift',
    ],
  },
  /** The state machine of a stream by itself: a million histories, and a search of five million states. */
  machine: {
    env: {
      MACHINE_HISTORIES: '1000000',
      MACHINE_STATES: '5000000',
      NODE_OPTIONS: '--max-old-space-size=8192',
    },
    args: [...VITEST, '--project=unit', 'packages/core/src/stream/machine.test.ts'],
  },
  simulation: { env: {}, args: [SOURCE, 'test/generated/simulation/main.ts', '--histories', '1000000'] },
  mutations: { env: {}, args: [SOURCE, 'test/generated/mutations/main.ts'] },
}

/** Runs one of them. @returns its exit code */
export function runLong(name, args) {
  const run = LONG_TESTS[name]
  const { status } = spawnSync(process.execPath, [...run.args, ...args], {
    stdio: 'inherit',
    env: { ...run.env, ...process.env },
  })
  return status ?? 1
}
