import { writeFileSync } from 'node:fs'
import type { Reporter, SerializedError, TestModule } from 'vitest/node'
import { findBrowser } from './browser.ts'
import { findTargets } from './targets.ts'

/**
 * Before the tests, reports which browser and servers are used, and why others are not. Afterwards, reports the number of passed
 * tests in each project and the tests that did not run, with a final line `N passed, N failed`.
 */
class SummaryReporter implements Reporter {
  #browserNote: string | null = null
  #detected: Promise<unknown> = Promise.resolve()

  onInit(): void {
    const browser = findBrowser().then(({ path, unavailableReason }) => {
      console.log(`browser under test: ${path === null ? `NOT used, ${unavailableReason}` : `${path} used`}`)
      if (unavailableReason !== null) this.#browserNote = `browser tests did NOT run: ${unavailableReason}`
    })
    const servers = findTargets().then((targets) => {
      for (const { name, unavailableReason } of targets) {
        console.log(
          `server under test: ${name} ${unavailableReason === null ? 'used' : `NOT used, ${unavailableReason}`}`,
        )
      }
    })
    this.#detected = Promise.all([browser, servers])
  }

  async onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): Promise<void> {
    // a short run may end before the browser and the servers were detected
    await this.#detected
    const { perProject, notes, ...summary } = summarize(modules, errors)
    const summaryFile = process.env['BATON_TEST_SUMMARY']
    if (summaryFile !== undefined) writeFileSync(summaryFile, JSON.stringify(summary))
    const { passed, failed, skipped } = summary
    const line = `${passed} passed, ${failed} failed`
    const excluded = process.env['BATON_TEST_EXCLUDED']
    // after the last lines of the default reporter
    process.on('exit', () => {
      for (const [name, passed] of perProject) console.log(`${name}: ${passed} passed`)
      if (this.#browserNote !== null) console.log(this.#browserNote)
      if (excluded !== undefined) console.log(`NOT run: ${excluded}`)
      for (const [note, count] of notes) console.log(`${count} tests did NOT run: ${note}`)
      console.log(skipped > 0 ? `${line}, ${skipped} skipped` : line)
    })
  }
}

/** The results of the tests. `failed` also counts errors outside of tests. */
interface Summary {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  readonly perProject: ReadonlyMap<string, number>
  /** Why tests were skipped, and how many. */
  readonly notes: ReadonlyMap<string, number>
}

/** Counts tests. A file whose process crashed has one error, and tests that had not begun count as skipped. */
export function summarize(modules: readonly TestModule[], errors: readonly SerializedError[]): Summary {
  const counts = { passed: 0, failed: errors.length, skipped: 0 }
  const perProject = new Map<string, number>()
  const notes = new Map<string, number>()
  for (const testModule of modules) {
    const tests = [...testModule.children.allTests()]
    const failed = tests.filter((test) => test.result().state === 'failed').length
    counts.failed += failed
    for (const test of tests) {
      const result = test.result()
      const { state } = result
      if (state === 'skipped' && result.note) notes.set(result.note, (notes.get(result.note) ?? 0) + 1)
      if (state === 'passed') {
        counts.passed += 1
        perProject.set(testModule.project.name, (perProject.get(testModule.project.name) ?? 0) + 1)
      } else if (state !== 'failed') counts.skipped += 1
    }
    // a file that could not be loaded has no tests, and must not count as passed
    if (testModule.state() === 'failed' && failed === 0) counts.failed += 1
  }
  return { ...counts, perProject, notes }
}

export default SummaryReporter
