import type { Reporter, TestModule } from 'vitest/node'

/** Ends a run with the one line that tools and people look for: `N passed, N failed`. */
export class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const counts = { passed: 0, failed: errors.length, skipped: 0 }
    for (const testModule of modules) {
      const tests = [...testModule.children.allTests()]
      for (const test of tests) {
        const { state } = test.result()
        if (state === 'passed') counts.passed += 1
        else if (state === 'failed') counts.failed += 1
        else counts.skipped += 1
      }
      // a file that could not be loaded has no tests, and must not look like a pass
      if (testModule.state() === 'failed' && tests.every((test) => test.result().state !== 'failed')) counts.failed += 1
    }
    const line = `${counts.passed} passed, ${counts.failed} failed`
    // after the default reporter's own closing lines
    process.on('exit', () => console.log(counts.skipped > 0 ? `${line}, ${counts.skipped} skipped` : line))
  }
}

export default SummaryReporter
