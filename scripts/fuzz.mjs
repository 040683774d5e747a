// The long form of the differential test: ten thousand generated sequences to the embedded server and to the real
// libsql-server. FUZZ_SEED repeats a run.
import { spawnSync } from 'node:child_process'

const env = { FUZZ_SEQUENCES: '10000', ...process.env }
const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--configLoader', 'native', '--project', 'unit']
const { status } = spawnSync(
  process.execPath,
  ['--conditions=@batonsql/source', ...vitest, 'test/differential', ...process.argv.slice(2)],
  { stdio: 'inherit', env },
)
process.exit(status ?? 1)
