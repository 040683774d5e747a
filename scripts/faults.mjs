// The long forms of the tests with faults, on every server under test: thousands of transactions, tens of thousands of
// writes, ten thousand pairs of a write and a read through replicas, ten thousand histories of lists,
// two thousand calls of the platform API while its server is killed, and a hundred migrations of shared schemas.
// FAULT_SEED repeats a run.
import { spawnSync } from 'node:child_process'

const env = {
  FAULT_LONG: '1',
  FAULT_TRANSACTIONS: '2000',
  FAULT_INTERLUDES: '10',
  FAULT_WRITES: '20000',
  FAULT_PAIRS: '10000',
  FAULT_APPENDS: '10000',
  FAULT_PLATFORM_CALLS: '2000',
  CRASH_ROUNDS: '100',
  FAULT_TIMEOUT_MS: '7200000',
  ...process.env,
}
const files = [
  ...['faults', 'histories', 'ended-transactions'].map((name) => `test/client/${name}.test.ts`),
  'test/platform/crash.test.ts',
  'test/server/schema-crash.test.ts',
]
const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--configLoader', 'native', '--no-file-parallelism']
const { status } = spawnSync(
  process.execPath,
  ['--conditions=@batonsql/source', ...vitest, ...files, 'test/server/cluster', ...process.argv.slice(2)],
  { stdio: 'inherit', env },
)
process.exit(status ?? 1)
