// The long forms of the tests with faults: thousands of transactions, tens of thousands of writes, on every server under
// test. FAULT_SEED repeats a run.
import { spawnSync } from 'node:child_process'

const env = { FAULT_TRANSACTIONS: '2000', FAULT_WRITES: '5000', FAULT_TIMEOUT_MS: '1800000', ...process.env }
const { status } = spawnSync(
  process.execPath,
  [
    '--conditions=@batonsql/source',
    'node_modules/vitest/vitest.mjs',
    'run',
    '--configLoader',
    'native',
    'test/end-to-end/core-faults.test.ts',
  ],
  { stdio: 'inherit', env },
)
process.exit(status ?? 1)
