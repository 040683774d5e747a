// The long forms of what is generated: ten thousand sequences to the embedded server and to the real libsql-server, a hundred
// thousand requests to the embedded server; dumps, events, jobs and attached databases of both; and every recorded case to libsql-server. FUZZ_SEED repeats a run.
import { spawnSync } from 'node:child_process'

const env = {
  FUZZ_SEQUENCES: '10000',
  FUZZ_REQUESTS: '100000',
  ROUTE_SCENES: '500',
  DRIFT_EVERY: '1',
  ATTACK_STATEMENTS: '1000',
  ...process.env,
}
const vitest = [
  'node_modules/vitest/vitest.mjs',
  'run',
  '--configLoader',
  'native',
  '--project',
  'unit',
  '--project',
  'security',
]
const { status } = spawnSync(
  process.execPath,
  [
    '--conditions=@batonsql/source',
    ...vitest,
    'test/generated/differential',
    'security/requests',
    'server/drift',
    ...process.argv.slice(2),
  ],
  { stdio: 'inherit', env },
)
process.exit(status ?? 1)
