import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const pagesOf = (folder: string): string[] =>
  existsSync(join(root, folder))
    ? readdirSync(join(root, folder))
        .filter((page) => page.endsWith('.md'))
        .map((page) => `${folder}/${page}`)
    : []
const packages = readdirSync(join(root, 'packages')).map((name) => `packages/${name}`)

test('llms.txt has its form, and links every page there is and no other', () => {
  const text = read('llms.txt')
  expect(text).toMatch(/^# Baton\n\n> /)
  const links = [...text.matchAll(/\]\(([^)]+)\)/g)].map(([, link = '']) => link)
  const pages = [
    ...packages.map((folder) => `${folder}/README.md`),
    ...packages.flatMap((folder) => pagesOf(`${folder}/docs`)),
  ]
  expect(links.toSorted()).toEqual(
    [
      'README.md',
      'CONTRIBUTING.md',
      'SECURITY.md',
      ...pagesOf('docs'),
      'docs/decisions/README.md',
      ...pages,
    ].toSorted(),
  )
  expect(links.filter((link) => !existsSync(join(root, link)))).toEqual([])
})

test('every page for users is on the documentation site', () => {
  const mapped = [...read('site/pages.mjs').matchAll(/from: '([^']+)'/g)].map(([, from = '']) => from)
  const pages = [
    'README.md',
    ...pagesOf('docs'),
    'docs/decisions/README.md',
    ...packages.flatMap((folder) => [`${folder}/README.md`, ...pagesOf(`${folder}/docs`)]),
  ]
  expect([...new Set(mapped)].toSorted()).toEqual(pages.toSorted())
})

test('the list of decisions links every record, and their numbers have no gaps', () => {
  const records = pagesOf('docs/decisions').filter((page) => !page.endsWith('README.md'))
  const links = [...read('docs/decisions/README.md').matchAll(/\]\(([^)]+)\)/g)].map(([, link = '']) => link)
  expect(links.map((link) => `docs/decisions/${link}`)).toEqual(records.toSorted())
  for (const [at, record] of records.toSorted().entries()) {
    expect(record).toMatch(new RegExp(`/${String(at + 1).padStart(4, '0')}-`))
    expect(
      read(record)
        .match(/^#+ .*$/gm)
        ?.slice(1),
    ).toEqual(['## Context', '## Decision', '## Consequences'])
  }
})

test.each(packages)('%s says what it is not for, before its first section', (folder) => {
  expect(read(`${folder}/README.md`).split('\n## ')[0]).toMatch(/^Not for /m)
})

test('the release publishes every package, after everything was tested', () => {
  const workflow = read('.github/workflows/release.yml')
  expect(workflow.indexOf('bash .ci/run')).toBeGreaterThan(0)
  expect(workflow.indexOf('scripts/publish.mjs')).toBeGreaterThan(workflow.indexOf('bash .ci/run'))
  const [, folders = ''] = /FOLDERS = \[([^\]]+)\]/.exec(read('scripts/publish.mjs')) ?? []
  const names = packages.map((folder) => `'${folder.replace('packages/', '')}'`)
  expect(folders.split(', ').toSorted()).toEqual(names.toSorted())
  expect(folders).toMatch(/^'core'/)
})
