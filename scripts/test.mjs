// Runs the tests, or those of one part of the repository: `npm test -- core`. Other arguments go to vitest. A test process that
// node itself ended (a failed check inside V8, for instance) says nothing about what was tested: its file is run once more, and
// the end of the output says so.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The parts that can be tested by themselves in about a minute: where their tests lie, and on which servers they run. */
const PARTS = {
  core: { projects: ['unit', 'embedded'], files: ['packages/core/', 'test/end-to-end/core/'] },
  kysely: { projects: ['unit', 'embedded'], files: ['packages/kysely-dialect/', 'test/end-to-end/kysely/'] },
  drizzle: {
    projects: ['unit', 'embedded', 'embedded-drizzle-1'],
    files: ['packages/drizzle-driver/', 'test/end-to-end/drizzle/', 'test/drizzle-1/'],
  },
  platform: { projects: ['unit', 'embedded'], files: ['packages/platform/', 'test/platform/'] },
  'local-server': { projects: ['unit'], files: ['packages/local-server/', 'test/conformance/transcripts'] },
}

const given = process.argv.slice(2)
// every version of Kysely and of Drizzle on every server, which a release needs
if (given[0] === '--all-versions') {
  given.shift()
  process.env.TEST_RELEASE = '1'
}
const [part, ...rest] = given
const { projects, files } = Object.hasOwn(PARTS, part ?? '') ? PARTS[part] : { projects: [], files: [] }
const args =
  projects.length === 0 ? given : [...projects.flatMap((name) => ['--project', name]), ...files, ...rest]

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

const first = run(args)
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
