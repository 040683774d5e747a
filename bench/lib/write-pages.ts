import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { drawRatios } from './chart.ts'
import { formatSuitePage, formatSummaryPage, getChartName, SUITES, summaryMeasurements } from './page.ts'
import type { Results } from './results.ts'

const DOCS = fileURLToPath(new URL('../../docs/', import.meta.url))
const FOLDER = `${DOCS}performance/`

/** Writes `docs/performance.md`, a page for each suite, and their charts. */
export function writePages(results: Results): void {
  mkdirSync(FOLDER, { recursive: true })
  for (const [suite, { title, unit, environment }] of Object.entries(SUITES)) {
    const shownMeasurements = results.measurements.filter(
      (measurement) =>
        measurement.suite === suite &&
        measurement.unit === unit &&
        (environment === undefined || measurement.environment === environment),
    )
    if (shownMeasurements.length > 0)
      writeFileSync(FOLDER + getChartName(suite), drawRatios(title, shownMeasurements))
    const page = formatSuitePage(results, suite)
    if (page !== null) writeFileSync(`${FOLDER}${suite.replaceAll(' ', '-')}.md`, page)
  }
  const summary = drawRatios('Speed relative to @libsql/client', summaryMeasurements(results))
  writeFileSync(`${FOLDER}summary.svg`, summary)
  writeFileSync(`${DOCS}performance.md`, formatSummaryPage(results, 'performance'))
}
