// Writes what is generated in the documentation: the lists of pages (README.md, llms.txt), the performance pages, and the tables of the
// recorded cases, of tested libraries, of commands and of routes. `--check` reports pages that differ instead; `npm run check` does so.
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { performancePages } from '../bench/lib/pages.ts'
import { readResults } from '../bench/lib/results.ts'
import { commandPage } from '../packages/cli/src/help.ts'
import { FACTS, GROUPS } from '../site/pages.mjs'
import { routeTable } from '../test/platform/route-table.ts'
import { caseTables } from '../test/server/accepted-differences.ts'
import { libraryTable } from '../test/support/works-with.ts'

const PAGES = ['*.md', 'docs/*.md', 'docs/performance/*.md', 'packages/*/README.md', 'packages/*/docs/*.md']
const LISTED = GROUPS.map(({ title, pages }) => ({
  title,
  pages: pages.filter(({ about }) => about !== undefined),
}))

/** The generated files: each a function of its current text. */
const GENERATED: Readonly<Record<string, (text: string) => string>> = {
  ...Object.fromEntries(
    Object.entries(performancePages(readResults())).map(([file, text]) => [file, () => text]),
  ),
  'docs/limits.md': (text) => after(text, '<!-- the cases -->', caseTables()),
  'docs/platform.md': (text) => after(text, '<!-- the routes -->', routeTable()),
  'docs/works-with.md': (text) => after(text, '<!-- the figures -->', libraryTable()),
  'packages/cli/docs/command.md': (text) => after(text, '<!-- the commands -->', commandPage()),
  // the last two contain the others' titles
  'llms.txt': formatLlms,
  'README.md': updateReadme,
}

const problems = [
  ...findMissingOrDuplicate(),
  ...Object.entries(GENERATED).flatMap(([file, change]) => findOutdated(file, change)),
]
for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

function findMissingOrDuplicate(): string[] {
  const files = [...globSync(PAGES), 'docs/decisions/README.md'].map((file) => file.replaceAll('\\', '/'))
  const listed = GROUPS.flatMap(({ pages }) => pages.map(({ from }) => from))
  return [
    ...files.filter((file) => !listed.includes(file)).map((file) => `${file} is missing from site/pages.mjs`),
    ...listed
      .filter((file) => !files.includes(file))
      .map((file) => `site/pages.mjs lists ${file}, which does not exist`),
    ...listed
      .filter((file, index) => listed.indexOf(file) !== index)
      .map((file) => `site/pages.mjs lists ${file} twice`),
  ]
}

function findOutdated(file: string, change: (text: string) => string): string[] {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  const expected = change(text)
  if (text === expected) return []
  if (process.argv.includes('--check')) return [`${file} is not what is generated: run npm run pages`]
  writeFileSync(file, expected)
  return []
}

/** Replaces everything after a comment. */
function after(text: string, comment: string, generated: string): string {
  const mark = `${comment}\n`
  return `${text.slice(0, text.indexOf(mark) + mark.length)}\n${generated}`
}

/** Returns the page for language models: what Baton is and its packages, from the README, then facts and the list of pages. */
function formatLlms(): string {
  const readme = readFileSync('README.md', 'utf8')
  const [, about = ''] = /^# Baton\n\n([^]*?)\n\n/.exec(readme) ?? []
  const [, status = ''] = /^\*\*(Status: [^]*?):?\*\*$/m.exec(readme) ?? []
  const packages = [...readme.matchAll(/^\| \[(`@batonsql\/[^`]+`)\]\(\S+\) \| (.*) \|$/gm)]
  const lists = [packages.map(([, name, what]) => `${name}: ${what}`), FACTS].map((items) =>
    items.map((item) => `- ${item}\n`).join(''),
  )
  const sections = LISTED.map(
    ({ title, pages }) =>
      `## ${title}\n\n${pages.map((page) => `- [${page.title}](${page.from}): ${page.about}\n`).join('')}`,
  )
  const quoted = `${about.replaceAll('\n', ' ')} ${status}.`
  return `# Baton\n\n> ${quoted}\n\n${lists.join('\n')}\n${sections.join('\n')}`
}

/** Replaces the list between the two comments, with one line per group. */
function updateReadme(text: string): string {
  const lines = LISTED.map(({ title, pages }) => {
    const links = pages
      .filter(({ from }) => from !== 'README.md')
      .map((page) => `[${page.title}](${page.from})`)
    return `- ${title}: ${links.join(', ')}\n`
  })
  return text.replace(/(?<=<!-- pages -->\n)[^]*(?=<!-- end of pages -->)/, `\n${lines.join('')}\n`)
}
