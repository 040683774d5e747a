// Runs the tests. Each run has its own temporary directory, which is removed afterwards; leftover files in it, and processes that
// are still running, make the run fail.
//   npm test              on both servers
//   npm test -- --all     also the packed packages and the other versions of Kysely and Drizzle, which a change must pass
//   npm test -- core      the tests of one part
// All other arguments are passed to vitest.
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

/** Projects that take as long as all others together, and are rarely the only ones that fail. */
const EXCLUDED = {
  text: 'the packed packages, and other versions of Kysely and Drizzle (npm test -- --all)',
  projects: ['packages', '*-kysely-*', '*-drizzle-*'],
}

/** Returns the arguments for vitest. */
function vitestArguments([first, ...rest]) {
  if (first === undefined) return EXCLUDED.projects.flatMap((name) => ['--project', `!${name}`])
  if (first === '--all' || first === '--all-versions') return rest
  if (!Object.hasOwn(PARTS, first)) return [first, ...rest]
  const { projects, files } = PARTS[first]
  return [...projects.flatMap((name) => ['--project', name]), ...files, ...rest]
}

const args = process.argv.slice(2)
if (args.length === 0) process.env.BATON_TEST_EXCLUDED = EXCLUDED.text
// before a release, tests every version of Kysely and Drizzle on every server, and runs the suites of other projects
if (args[0] === '--all-versions') process.env.TEST_RELEASE = '1'

const run = new TestRun()
let { status, passed, failed, skipped } = await run.vitest(vitestArguments(args))
const { entries, processes } = await run.end()
const leftovers = [
  entries.length > 0 &&
    `left in the temporary directory: ${entries.length} entries: ${entries.slice(0, 5).join('; ')}`,
  processes.length > 0 && `left running: ${processes.join(', ')}`,
].filter(Boolean)
if (leftovers.length > 0) {
  for (const line of leftovers) console.log(line)
  // leftovers from an interrupted or failed run do not matter
  if (status === 0) {
    status = 1
    failed += 1
  }
  console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
}
process.exit(status)
