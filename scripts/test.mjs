// Runs the tests. A test process that node itself ended (a failed check inside V8, for instance) says nothing about what
// was tested: its file is run once more, and the end of the output says so.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const directory = mkdtempSync(join(tmpdir(), 'baton-summary-'))
const summaryFile = join(directory, 'summary.json')
const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--configLoader', 'native']

/** Runs vitest with some arguments; resolves with what test/targets/summary-reporter.ts has counted. */
function run(args) {
  rmSync(summaryFile, { force: true })
  const { status } = spawnSync(process.execPath, ['--conditions=@batonsql/source', ...vitest, ...args], {
    stdio: 'inherit',
    env: { ...process.env, BATON_TEST_SUMMARY: summaryFile },
  })
  try {
    return { status: status ?? 1, ...JSON.parse(readFileSync(summaryFile, 'utf8')) }
  } catch {
    return { status: status ?? 1, crashes: [] } // it has not got as far as that
  }
}

const first = run(process.argv.slice(2))
let { status } = first
if (status !== 0 && first.crashes.length > 0 && first.failed === first.crashes.length) {
  status = 0
  let { passed, skipped } = first
  let failed = 0
  const lines = []
  for (const { project, file, signal } of first.crashes) {
    const again = run(['--project', project, file])
    status ||= again.status
    passed += again.passed ?? 0
    failed += again.failed ?? 1
    skipped += again.skipped ?? 0
    lines.push(
      `${file} (${project}): node ended with ${signal}; run again: ${again.passed ?? 0} passed, ${again.failed ?? 1} failed`,
    )
  }
  for (const line of lines) console.log(line)
  console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
}
rmSync(directory, { recursive: true, force: true })
process.exit(status)
