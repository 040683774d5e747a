// The conformance page must match the tables that the tests use. UPDATE_DOCS=1 regenerates it.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ACCEPTED_DIFFERENCES, NOT_REPLAYED } from './accepted-differences.ts'
import { readTranscripts } from './transcript.ts'

const PAGE = new URL('../../packages/local-server/docs/conformance.md', import.meta.url)
const MARKER = '<!-- the cases -->\n'

function formatTable(reasons: Readonly<Record<number, string>>): string {
  const titles = new Map(readTranscripts().map(({ id, title }) => [id, title]))
  const rows = Object.entries(reasons).map(
    ([id, reason]) => `| ${id} | ${formatCell(titles.get(Number(id)))} | ${formatCell(reason)} |`,
  )
  return ['| case | request | difference or reason |', '|---|---|---|', ...rows, ''].join('\n')
}

const formatCell = (text = ''): string => text.replaceAll('|', '\\|')

test('the page lists every recorded case that differs or is not replayed', () => {
  const total = readTranscripts().length
  const differingCount = Object.keys(ACCEPTED_DIFFERENCES).length
  const notReplayedCount = Object.keys(NOT_REPLAYED).length
  const cases = [
    `Of ${total} recorded cases ${total - differingCount - notReplayedCount} get the same response, ${differingCount} differ, ${notReplayedCount} are not replayed.\n`,
    '## Cases that differ\n',
    formatTable(ACCEPTED_DIFFERENCES),
    '## Cases that are not replayed\n',
    formatTable(NOT_REPLAYED),
  ].join('\n')
  const page = readFileSync(PAGE, 'utf8')
  const head = page.slice(0, page.indexOf(MARKER) + MARKER.length)
  if (process.env['UPDATE_DOCS'] !== undefined) writeFileSync(PAGE, `${head}\n${cases}`)
  expect(readFileSync(PAGE, 'utf8'), 'UPDATE_DOCS=1 updates the page').toBe(`${head}\n${cases}`)
})

test('the tests mentioned in the reasons exist', () => {
  const reasons = Object.values({ ...ACCEPTED_DIFFERENCES, ...NOT_REPLAYED }).join('\n')
  const mentioned = reasons.match(/[\w./-]+\.test\.ts/g) ?? []
  expect(mentioned.length).toBeGreaterThan(5)
  const folders = ['../../', './']
  const missing = mentioned.filter(
    (name) => !folders.some((folder) => existsSync(new URL(folder + name, import.meta.url))),
  )
  expect(missing).toEqual([])
})
