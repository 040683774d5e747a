// Runs the long versions of the fault tests on every server under test: thousands of transactions, tens of thousands of
// writes, ten thousand writes followed by a read through replicas, ten thousand histories of list appends,
// two thousand calls to the platform API while its server is killed, and a hundred migrations of shared schemas.
// Set FAULT_SEED to repeat a run.
import { runLong } from './test-run.mjs'

runLong(
  {
    FAULT_LONG: '1',
    FAULT_TRANSACTIONS: '2000',
    FAULT_DISRUPTIONS: '10',
    FAULT_WRITES: '20000',
    FAULT_PAIRS: '10000',
    FAULT_APPENDS: '10000',
    FAULT_PLATFORM_CALLS: '2000',
    CRASH_ROUNDS: '100',
    FAULT_TIMEOUT_MS: '7200000',
  },
  [
    '--no-file-parallelism',
    ...['faults', 'histories', 'ended-transactions'].map((name) => `test/client/${name}.test.ts`),
    'test/platform/crash.test.ts',
    'test/server/schema-crash.test.ts',
    'test/server/cluster',
  ],
)
