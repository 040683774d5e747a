// Runs the tests, or those of one part of the repository: `npm test -- core`. Other arguments go to vitest. A test process that
// node itself ended (a failed check inside V8, for instance) says nothing about what was tested: its file is run once more, and
// the end of the output says so. A run has a temporary directory of its own, removed with it. What is left there, or left running, at the end fails the run.
import { TestRun } from './test-run.mjs'

/** The parts that can be tested by themselves in about a minute: where their tests lie, and on which servers they run. */
const PARTS = {
  core: { projects: ['unit', 'embedded'], files: ['packages/core/', 'test/client/'] },
  kysely: { projects: ['unit', 'embedded'], files: ['packages/kysely-dialect/', 'test/adapters/kysely/'] },
  drizzle: {
    projects: ['unit', 'embedded', 'embedded-drizzle-1'],
    files: ['packages/drizzle-driver/', 'test/adapters/drizzle/', 'test/adapters/drizzle-1/'],
  },
  'libsql-client': {
    projects: ['unit', 'embedded'],
    files: ['packages/libsql-client/', 'test/adapters/libsql-client/'],
  },
  platform: { projects: ['unit', 'embedded'], files: ['packages/platform/', 'test/platform/'] },
  cli: { projects: ['unit', 'embedded'], files: ['packages/cli/', 'test/command/'] },
  'local-server': {
    projects: ['unit'],
    files: ['packages/local-server/', 'internal/', 'test/server/transcripts'],
  },
}

const given = process.argv.slice(2)
// every version of Kysely and of Drizzle on every server, and the suites of other projects, which a release needs
if (given[0] === '--all-versions') {
  given.shift()
  process.env.TEST_RELEASE = '1'
}
const [part, ...rest] = given
const { projects, files } = Object.hasOwn(PARTS, part ?? '') ? PARTS[part] : { projects: [], files: [] }
const args =
  projects.length === 0 ? given : [...projects.flatMap((name) => ['--project', name]), ...files, ...rest]

const run = new TestRun()
const first = await run.vitest(args)
let { status } = first
let { passed, failed, skipped } = first
const lines = []
if (status !== 0 && first.crashes.length > 0 && first.failed === first.crashes.length) {
  status = 0
  failed = 0
  for (const { project, file, signal } of first.crashes) {
    const again = await run.vitest(['--project', project, file])
    status ||= again.status
    passed += again.passed ?? 0
    failed += again.failed ?? 1
    skipped += again.skipped ?? 0
    lines.push(
      `${file} (${project}): node exited with ${signal}; run again: ${again.passed ?? 0} passed, ${again.failed ?? 1} failed`,
    )
  }
}
const { entries, processes } = await run.end()
const leftovers = [
  entries.length > 0 &&
    `left in the temporary directory: ${entries.length} entries: ${entries.slice(0, 5).join('; ')}`,
  processes.length > 0 && `left running: ${processes.join(', ')}`,
].filter(Boolean)
// what a run that was interrupted or failed leaves says nothing about the tests
if (status === 0 && leftovers.length > 0) {
  status = 1
  failed += 1
}
lines.push(...leftovers)
for (const line of lines) console.log(line)
if (lines.length > 0)
  console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exit(status)
