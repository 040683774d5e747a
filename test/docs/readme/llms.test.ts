import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { readResults } from '../../../bench/lib/results.ts'

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
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--conditions=@batonsql/source', '--no-warnings', 'scripts/pages.ts', '--check'],
    { cwd: root, encoding: 'utf8' },
  )
  expect([status, stderr]).toEqual([0, ''])
})

test('the list of decisions links to every record, and each has the same three parts', () => {
  const records = pagesOf('docs/decisions').filter((page) => !page.endsWith('README.md'))
  const links = [...read('docs/decisions/README.md').matchAll(/\]\(([^)]+)\)/g)].map(([, link = '']) => link)
  expect(links.map((link) => `docs/decisions/${link}`)).toEqual(records.toSorted())
  for (const record of records) {
    const [title, ...parts] = read(record).match(/^#+ .*$/gm) ?? []
    expect(title).toMatch(new RegExp(`^# ${Number(/\/(\d+)-/.exec(record)?.[1])}\\. `))
    expect(parts).toEqual(['## Context', '## Decision', '## Consequences'])
  }
})

test('the speeds in the README match the recorded benchmark results', () => {
  const [, ...row] =
    /^\| \[speed\]\(docs\/performance\.md\).*$/m.exec(read('README.md'))?.[0].split(' | ') ?? []
  const getRatios = (operation: string): number[] => {
    const { subjects = {} } =
      readResults().rows.find((candidate) => candidate.operation === operation && candidate.unit === 'µs') ??
      {}
    const [original = 0] = subjects['@libsql/client'] ?? []
    return ['baton', '@libsql/client', '@tursodatabase/serverless'].map(
      (subject) => original / (subjects[subject]?.[0] ?? 0),
    )
  }
  const [select, rows] = [
    getRatios('SELECT, one by one'),
    getRatios('10,000 rows of six columns, per row'),
  ] as const
  const expected = select.map((ratio, index) => `${formatRatio(ratio)}×, ${formatRatio(rows[index] ?? 0)}×`)
  expect(row.map((cell) => cell.replace(' |', ''))).toEqual(expected)
})

test('every page with figures of torn transactions has the figures of the recorded run', () => {
  const { torn } = readResults()
  const format = (count = -1): string => count.toLocaleString('en')
  const [transactions, ended] = [format(torn.transactions), format(torn.endedByServer)]
  const [baton, original, serverless] = ['@batonsql/core', '@libsql/client', '@tursodatabase/serverless'].map(
    (client) => format(torn.torn[client]),
  )
  expect(torn.torn['@batonsql/libsql-client']).toBe(torn.torn['@batonsql/core'])
  expect(read('README.md')).toContain(`of ${transactions} | ${baton} | ${original} | ${serverless} |`)
  const page = read('packages/core/docs/transactions.md')
  for (const count of [baton, original, serverless]) expect(page).toContain(`| ${count} of ${transactions} |`)
  expect(page).toMatch(new RegExp(`ends ${ended} of\\s+them`))
  const dropIn = read('packages/libsql-client/README.md').replaceAll('\n', ' ')
  expect(dropIn).toContain(
    `Of ${transactions} transactions, the server ended ${ended} on its own; ${baton} of`,
  )
  expect(dropIn).toContain(`(${original} with the original)`)
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
  const files = globSync(['.github/workflows/*.yml', '.github/actions/*/action.yml'], { cwd: root })
  const uses = files.flatMap((file) =>
    [...read(file).matchAll(/uses: (.+)/g)].map(([, action = '']) => action),
  )
  const others = uses.filter((action) => !action.startsWith('./'))
  expect(others.length).toBeGreaterThan(5)
  expect(others.filter((action) => !/^[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([])
})

test('a tag publishes every package, of a commit for which ci has passed', () => {
  const workflow = read('.github/workflows/publish.yml')
  const check = workflow.indexOf('gh run list --workflow ci.yml')
  expect(check).toBeGreaterThan(0)
  expect(workflow.indexOf('scripts/publish.mjs')).toBeGreaterThan(check)
  const [, folders = ''] = /FOLDERS = \[([^\]]+)\]/.exec(read('scripts/publish.mjs')) ?? []
  const published = [...folders.matchAll(/'([^']+)'/g)].map(([, folder]) => `packages/${folder}`)
  expect(published.toSorted()).toEqual(packages.toSorted())
  expect(published[0]).toBe('packages/core')
})
