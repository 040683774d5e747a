// The commands that contributors are told to run exist.
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { LONG_TESTS } from '../../../scripts/long-tests.mjs'
import { vitestArguments } from '../../../scripts/test-parts.mjs'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { scripts: object }
const PAGES = globSync(
  [
    '*.md',
    'docs/**/*.md',
    'packages/*/README.md',
    'packages/*/docs/*.md',
    '{test,examples,internal/*}/README.md',
  ],
  // that page has commands of a reader's own project
  { cwd: root, exclude: ['docs/migrations.md'] },
)
const { stdout: benchmarks } = spawnSync(
  process.execPath,
  ['--conditions=@batonsql/source', '--no-warnings', `${root}bench/main.ts`],
  { encoding: 'utf8' },
)

/** Commands of the checkout: words of shell blocks and of code in sentences. */
const commandsOf = (page: string): string[] =>
  Array.from(
    readFileSync(`${root}${page}`, 'utf8').matchAll(/(?:^|`)((?:npm (?:run|test)|pnpm) [^`\n]*)/gm),
    ([, command = '']) => command.trim(),
  )

test.each(PAGES)('%s names only commands that exist', (page) => {
  for (const command of commandsOf(page)) {
    expect(command).not.toMatch(/^pnpm (?:exec|run)/)
    const [, script] = /^npm run (\S+)/.exec(command) ?? []
    if (script !== undefined)
      expect([command, Object.keys(scripts)]).toEqual([command, expect.arrayContaining([script])])
    const [, args] = /^npm test -- ([^#]*)/.exec(command) ?? []
    const words = args?.trim().split(' ') ?? []
    if (words.length > 0 && !Object.hasOwn(LONG_TESTS, words[0] ?? '') && words[0] !== 'release')
      expect(() => vitestArguments(words)).not.toThrow()
    const [, benchmark] = /^npm run bench -- ([\w-]+)/.exec(command) ?? []
    if (benchmark !== undefined && benchmark !== 'all')
      expect(benchmarks).toMatch(new RegExp(`^ {2}${benchmark} `, 'm'))
  }
})

test('several parts run together, with the files and options that follow', () => {
  const [core, kysely] = [vitestArguments(['core']), vitestArguments(['kysely'])]
  const both = vitestArguments(['core', 'kysely', '-t', 'name'])
  for (const argument of [...core, ...kysely]) expect(both).toContain(argument)
  expect(both.slice(-2)).toEqual(['-t', 'name'])
  expect(both.filter((argument) => argument === 'embedded')).toHaveLength(1)
  expect(vitestArguments(['--project', 'sqld', 'test/client/values.test.ts'])).toEqual([
    '--project',
    'sqld',
    'test/client/values.test.ts',
  ])
  expect(vitestArguments(['packages/core'])).toEqual(['packages/core'])
})

test.each([
  [
    ['kysly'],
    /^unknown part "kysly"; the parts are core, kysely, drizzle, libsql-client, platform, cli, local-server\. For other tests/,
  ],
  [['kysely', 'drizle'], /^unknown part "drizle"/],
  [['toString'], /^unknown part "toString"/],
  [['--all', 'kysly'], /^unknown part "kysly"/],
  [['--all', 'core'], /^--all runs all parts: leave out core/],
])('npm test -- %j fails at once, with what to do', (args, message) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [`${root}scripts/test.mjs`, ...args], {
    encoding: 'utf8',
  })
  expect([status, stdout, stderr]).toEqual([2, '', expect.stringMatching(message)])
})
