/*
 * Runs generated histories of the client in a separate process with a simulated clock and timers. SIMULATED_HISTORIES
 * sets their number, TEST_SEED repeats a run; `npm test -- simulation` is the long version.
 */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { IS_RELEASE, SEED } from '../../support/random.ts'

const HISTORY_COUNT = Number(process.env['SIMULATED_HISTORIES'] ?? (IS_RELEASE ? 8_000 : 2_000))
const PROGRAM = fileURLToPath(new URL('main.ts', import.meta.url))
/** Time limit for each history: ten times as long as it takes on an otherwise idle machine. */
const MS_PER_HISTORY = 30

test(`${HISTORY_COUNT} simulated histories keep the guarantees of the client (TEST_SEED=${SEED})`, {
  timeout: 180_000 + HISTORY_COUNT * MS_PER_HISTORY,
}, async () => {
  const args = [
    '--conditions=@batonsql/source',
    PROGRAM,
    '--histories',
    String(HISTORY_COUNT),
    '--seed',
    String(SEED),
  ]
  const { status, output } = await run(args)
  console.log(output)
  expect({ status, output }).toMatchObject({ status: 0 })
})

function run(args: readonly string[]): Promise<{ status: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { maxBuffer: 2 ** 26 }, (error, stdout, stderr) =>
      resolve({ status: error ? 1 : 0, output: stdout + stderr }),
    )
  })
}
