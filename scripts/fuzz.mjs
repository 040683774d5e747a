// Runs the long versions of the generated tests: ten thousand sequences on the embedded server and on the real libsql-server, a
// hundred thousand requests to the embedded server; dumps, events, jobs and attached databases on both; and every recorded case on
// libsql-server. Set FUZZ_SEED to repeat a run.
import { runLong } from './test-run.mjs'

runLong(
  {
    FUZZ_SEQUENCES: '10000',
    FUZZ_REQUESTS: '100000',
    ROUTE_CASES: '500',
    DRIFT_EVERY: '1',
    ATTACK_STATEMENTS: '1000',
  },
  [
    '--project=unit',
    '--project=security',
    'test/generated/differential',
    'security/requests',
    'server/drift',
  ],
)
