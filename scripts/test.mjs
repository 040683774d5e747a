// Runs the tests. Each run has its own temporary directory, which is removed afterwards; leftover files in it, and processes that
// are still running, make the run fail.
//   npm test              on both servers
//   npm test -- --all     also the packed packages and the other versions of Kysely and Drizzle, which a change must pass
//   npm test -- core      the tests of one part, or of several
//   npm test -- release   as --all, with every version of Kysely and Drizzle on every server, and test suites of other projects
//   npm test -- faults    the long version of tests: faults, fuzz, simulation, mutations
// All other arguments are passed to vitest.
import { LONG_TESTS, runLong } from './long-tests.mjs'
import { EXCLUDED, vitestArguments } from './test-parts.mjs'
import { TestRun } from './test-run.mjs'

const args = process.argv.slice(2)
if (Object.hasOwn(LONG_TESTS, args[0] ?? '')) process.exit(runLong(args[0], args.slice(1)))
if (args.length === 0) process.env.BATON_TEST_EXCLUDED = EXCLUDED.text
if (args[0] === 'release') {
  process.env.TEST_RELEASE = '1'
  args[0] = '--all'
}

let testArguments
try {
  testArguments = vitestArguments(args)
} catch (error) {
  console.error(error.message)
  process.exit(2)
}
const run = new TestRun()
let { status, passed, failed, skipped } = await run.vitest(testArguments)
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
