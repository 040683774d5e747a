// The figures on the page about libraries are those of the installed versions; `npm test -- release` records them.
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { figureKey, getVersion, LIBRARY_TESTS, readFigures, serversOf } from '../../support/works-with.ts'

const ROOT = new URL('../../../', import.meta.url)
const figures = readFigures()

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

test('there are no figures for libraries that are no longer tested', () => {
  const keys = RECORDED_RUNS.map((entry) => figureKey(entry, entry.server))
  expect(Object.keys(figures).filter((key) => !keys.includes(key))).toEqual([])
})
