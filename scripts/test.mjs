// Runs the tests, or those of one part of the repository: `npm test -- core`. Other arguments are passed to vitest. If node itself
// crashed in a test process (for instance, because a check inside V8 failed), that is not a failure of the tests: the file is run
// once more, and the end of the output reports that. Each run has its own temporary directory, which is removed afterwards.
// Leftover files in it, and processes that are still running, make the run fail.
import { TestRun } from './test-run.mjs'

/** The parts that can be tested separately in about a minute, with the locations of their tests and the servers they run on. */
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
// before a release: every version of Kysely and Drizzle on every server, and the suites of other projects
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
// leftovers of an interrupted or failed run do not matter
if (status === 0 && leftovers.length > 0) {
  status = 1
  failed += 1
}
lines.push(...leftovers)
for (const line of lines) console.log(line)
if (lines.length > 0)
  console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exit(status)
