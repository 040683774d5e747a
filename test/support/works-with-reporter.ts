import { writeFileSync } from 'node:fs'
import type { Reporter, TestModule } from 'vitest/node'
import { FIGURES_FILE, type Figure, figureKey, getVersion, LIBRARY_TESTS, readFigures } from './works-with.ts'

/**
 * Records how many tests of each library passed, for docs/works-with.md. Preserves the figures of files that did not run.
 */
class WorksWithReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const figures: Record<string, Figure> = readFigures()
    for (const entry of LIBRARY_TESTS)
      for (const testModule of modules) {
        if (testModule.relativeModuleId !== entry.file) continue
        const tests = [...testModule.children.allTests()].filter(({ fullName }) =>
          fullName.startsWith(entry.tests ?? ''),
        )
        // test/packages runs on the embedded server; other versions of Kysely have separate projects
        const { name } = testModule.project
        const server = name === 'packages' ? 'embedded' : name
        if (server !== 'embedded' && server !== 'sqld') continue
        const passed = tests.filter((test) => test.result().state === 'passed').length
        figures[figureKey(entry, server)] = { version: getVersion(entry), passed, total: tests.length }
      }
    const keys = LIBRARY_TESTS.flatMap((entry) =>
      ['embedded', 'sqld'].map((server) => figureKey(entry, server)),
    )
    const currentFigures = keys.flatMap((key) => (figures[key] ? [[key, figures[key]] as const] : []))
    writeFileSync(FIGURES_FILE, `${JSON.stringify(Object.fromEntries(currentFigures), null, 2)}\n`)
  }
}

export default WorksWithReporter
