// The long forms of what is generated: ten thousand sequences to the embedded server and to the real libsql-server, a hundred
// thousand requests to the embedded server; dumps, events, jobs and attached databases of both; and every recorded case to libsql-server. FUZZ_SEED repeats a run.
import { runLong } from './test-run.mjs'

runLong(
  {
    FUZZ_SEQUENCES: '10000',
    FUZZ_REQUESTS: '100000',
    ROUTE_SCENES: '500',
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
