// Checks that site/pages.mjs lists every documentation page once, and that llms.txt and the list in README.md match it and the README.
// `--write` updates them.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { FACTS, GROUPS } from '../site/pages.mjs'

const PAGES = ['*.md', 'docs/*.md', 'docs/performance/*.md', 'packages/*/README.md', 'packages/*/docs/*.md']
const LISTED = GROUPS.map(({ title, pages }) => ({
  title,
  pages: pages.filter(({ about }) => about !== undefined),
}))

const problems = [
  ...findMissingOrDuplicate(),
  ...findOutdated('llms.txt', updateLlms),
  ...findOutdated('README.md', updateReadme),
]
for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

function findMissingOrDuplicate() {
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

function findOutdated(file, change) {
  const text = readFileSync(file, 'utf8')
  const expected = change(text)
  if (text === expected) return []
  if (!process.argv.includes('--write'))
    return [`${file} differs from site/pages.mjs: run npm run docs:pages`]
  writeFileSync(file, expected)
  return []
}

/** Returns the page for language models: what Baton is and its packages, from the README, then facts and the list of pages. */
function updateLlms() {
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
function updateReadme(text) {
  const lines = LISTED.map(({ title, pages }) => {
    const links = pages
      .filter(({ from }) => from !== 'README.md')
      .map((page) => `[${page.title}](${page.from})`)
    return `- ${title}: ${links.join(', ')}\n`
  })
  return text.replace(/(?<=<!-- pages -->\n)[^]*(?=<!-- end of pages -->)/, `\n${lines.join('')}\n`)
}
