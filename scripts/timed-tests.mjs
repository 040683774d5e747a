// Rejects tests that depend on the machine's speed: comparisons of elapsed time with a limit (except in `expectNoStall`), and
// `vi.waitFor` or `vi.waitUntil` without a timeout of 60 s, in whose place `waitFor` of test/support or `expect.poll` is used.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const ALLOWED = 'test/support/no-stall.ts'
/** Matches an assertion that compares elapsed time, recognized by `now()` or by a variable's name, with a limit. */
const TIME_COMPARISON =
  /expect(?:\.poll)?\([^\n]*(?:now\(\)|[Ee]lapsed|[Dd]urationMs|AfterMs|[tT]ookMs)[^\n]*\)\s*\.(?:not\.)?toBe(?:Less|Greater)Than(?!OrEqual\(0\)|\(0\))/
const SHORT_WAIT = /vi\.wait(?:For|Until)\((?!.*timeout: 60_000)/

const files = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', 'test', 'packages', 'internal'],
  {
    encoding: 'utf8',
  },
)
let violations = 0
for (const file of files.trim().split('\n')) {
  if (!file.endsWith('.ts') || file === ALLOWED) continue
  if (!file.startsWith('test/') && !file.endsWith('.test.ts')) continue
  // a call may span several lines
  const text = readFileSync(file, 'utf8').replace(/\n\s*(?=\.to)/g, '')
  for (const line of text.split('\n')) {
    if (!TIME_COMPARISON.test(line) && !SHORT_WAIT.test(line)) continue
    violations += 1
    console.log(`${file}: ${line.trim().slice(0, 140)}`)
  }
}
process.exit(violations > 0 ? 1 : 0)
