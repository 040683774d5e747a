import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const pagesOf = (folder: string): string[] =>
  readdirSync(join(root, folder))
    .filter((page) => page.endsWith('.md'))
    .map((page) => `${folder}/${page}`)
const formatRatio = (ratio: number): string => (ratio === 1 ? '1' : ratio.toFixed(1))
const packages = readdirSync(join(root, 'packages')).map((name) => `packages/${name}`)

test('llms.txt has the expected form', () => {
  expect(read('llms.txt')).toMatch(/^# Baton\n\n> /)
})

test('every page is listed in site/pages.mjs, from which llms.txt, the README and the site are generated', () => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/docs-pages.mjs'], {
    cwd: root,
    encoding: 'utf8',
  })
  expect([status, stderr]).toEqual([0, ''])
})

test('the list of decisions links to every record, and the numbers of the records have no gaps', () => {
  const records = pagesOf('docs/decisions').filter((page) => !page.endsWith('README.md'))
  const links = [...read('docs/decisions/README.md').matchAll(/\]\(([^)]+)\)/g)].map(([, link = '']) => link)
  expect(links.map((link) => `docs/decisions/${link}`)).toEqual(records.toSorted())
  for (const [index, record] of records.toSorted().entries()) {
    expect(record).toMatch(new RegExp(`/${String(index + 1).padStart(4, '0')}-`))
    expect(
      read(record)
        .match(/^#+ .*$/gm)
        ?.slice(1),
    ).toEqual(['## Context', '## Decision', '## Consequences'])
  }
})

test('the speeds in the README match the stored benchmark results', () => {
  const [, ...row] =
    /^\| \[speed\]\(docs\/performance\.md\).*$/m.exec(read('README.md'))?.[0].split(' | ') ?? []
  const page = read('docs/performance.md')
  const getRatios = (operation: string): number[] => {
    const line = page.split('\n').find((text) => text.includes(`[${operation}`)) ?? ''
    const [baton = 0, original = 0, serverless = 0] = [...line.matchAll(/ ([\d.,]+) µs/g)].map(
      ([, text = '']) => Number(text.replace(',', '')),
    )
    return [original / baton, 1, original / serverless]
  }
  const [select, rows] = [getRatios('SELECT, one by one'), getRatios('10,000 rows')]
  const expected = select.map((ratio, index) => `${formatRatio(ratio)}×, ${formatRatio(rows[index] ?? 0)}×`)
  expect(row.map((cell) => cell.replace(' |', ''))).toEqual(expected)
})

test('the files that CONTRIBUTING.md mentions exist', () => {
  const [, map = ''] = /^## Where to find things\n([^]*?)^## /m.exec(read('CONTRIBUTING.md')) ?? []
  const paths = [...map.matchAll(/`((?:[CILS]|packages|internal)\/[^`]+)`/g)].map(([, path = '']) =>
    path
      .replace(/^C\//, 'packages/core/src/')
      .replace(/^L\//, 'packages/local-server/src/')
      .replace(/^S\//, 'internal/server-common/src/')
      .replace(/^I\//, 'internal/'),
  )
  expect(paths.length).toBeGreaterThan(40)
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([])
})

test.each(packages)('%s states what the package is not for, before the first section', (folder) => {
  expect(read(`${folder}/README.md`).split('\n## ')[0]).toMatch(/^It is not for /m)
})

test('workflows pin actions of others to a commit, whose version is in a comment', () => {
  const files = [
    '.github/workflows/ci.yml',
    '.github/workflows/release.yml',
    '.github/actions/setup/action.yml',
  ]
  const uses = files.flatMap((file) =>
    [...read(file).matchAll(/uses: (.+)/g)].map(([, action = '']) => action),
  )
  const others = uses.filter((action) => !action.startsWith('./'))
  expect(others.length).toBeGreaterThan(5)
  expect(others.filter((action) => !/^[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([])
})

test('the release publishes every package after all tests have run', () => {
  const workflow = read('.github/workflows/release.yml')
  expect(workflow.indexOf('bash .ci/run')).toBeGreaterThan(0)
  expect(workflow.indexOf('scripts/publish.mjs')).toBeGreaterThan(workflow.indexOf('bash .ci/run'))
  const [, folders = ''] = /FOLDERS = \[([^\]]+)\]/.exec(read('scripts/publish.mjs')) ?? []
  const published = [...folders.matchAll(/'([^']+)'/g)].map(([, folder]) => `packages/${folder}`)
  expect(published.toSorted()).toEqual(packages.toSorted())
  expect(published[0]).toBe('packages/core')
})
