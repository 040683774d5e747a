// The page about libraries shows the figures that `npm run test:release` records. UPDATE_DOCS=1 writes both.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  figureKey,
  getInstalledVersion,
  getVersion,
  LIBRARY_TESTS,
  type LibraryTests,
  readFigures,
  SERVERS,
} from '../../support/works-with.ts'

const ROOT = new URL('../../../', import.meta.url)
const PAGE = new URL('docs/works-with.md', ROOT)
const MARK = '<!-- the figures -->\n'
const figures = readFigures()

const serversOf = ({ installedIn }: LibraryTests) => (installedIn === undefined ? ['embedded'] : SERVERS)

function formatRow(entry: LibraryTests): string {
  const { library, packageName, through, suite, file, installedIn } = entry
  const counts = serversOf(entry).map((server) => {
    const figure = figures[figureKey(entry, server)]
    return figure === undefined ? 'not recorded' : `${figure.passed} of ${figure.total} (${server})`
  })
  const tests =
    suite && installedIn
      ? `\`${suite}\` ${getInstalledVersion(suite, installedIn)}`
      : `ours: [\`${file.split('/').at(-1)}\`](../${file})`
  return `| ${library} | \`${packageName}\` ${getVersion(entry)} | ${through} | ${tests} | ${counts.join(', ')} |`
}

test('the page shows the recorded figures', () => {
  const table = [
    '| library | version | through | tests | passed |',
    '|---|---|---|---|---|',
    ...LIBRARY_TESTS.map(formatRow),
    '',
  ].join('\n')
  const page = readFileSync(PAGE, 'utf8')
  const head = page.slice(0, page.indexOf(MARK) + MARK.length)
  if (process.env['UPDATE_DOCS'] !== undefined) writeFileSync(PAGE, `${head}\n${table}`)
  expect(readFileSync(PAGE, 'utf8'), 'UPDATE_DOCS=1 updates the page').toBe(`${head}\n${table}`)
})

const RECORDED_RUNS = LIBRARY_TESTS.flatMap((entry) =>
  serversOf(entry).map((server) => ({ ...entry, server })),
)

test.each(RECORDED_RUNS)(
  '$library through $through, $file, $server: recorded with the installed version',
  (entry) => {
    expect(existsSync(new URL(entry.file, ROOT))).toBe(true)
    const figure = figures[figureKey(entry, entry.server)]
    expect(figure).toMatchObject({ version: getVersion(entry), passed: figure?.total })
    expect(figure?.total).toBeGreaterThan(0)
  },
)

test('the page has no figures for libraries that are no longer tested', () => {
  const keys = RECORDED_RUNS.map((entry) => figureKey(entry, entry.server))
  expect(Object.keys(figures).filter((key) => !keys.includes(key))).toEqual([])
})
