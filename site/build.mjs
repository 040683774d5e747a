// Builds the documentation site into site/dist: copies the pages of the repository, generates the reference from the docblocks,
// renders both, and fails if there is a broken link. The pages stay in their folders, because they are also read in the
// repository and in the tarballs. The site is a separate workspace, because VitePress and typedoc depend on 145 packages and
// another version of TypeScript, which the tests do not need.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Application } from 'typedoc'
import { GROUPS, RECORDS, REFERENCE } from './pages.mjs'

const SITE = fileURLToPath(new URL('.', import.meta.url))
const ROOT = join(SITE, '..')
const PAGES = join(SITE, 'pages')
const { homepage } = JSON.parse(readFileSync(join(ROOT, 'packages/core/package.json'), 'utf8'))
const REPOSITORY = homepage.replace(/\/packages\/.*/, '')

const pages = [...GROUPS.flatMap((group) => group.pages), ...RECORDS].filter(({ to }) => to !== undefined)
/** Maps the pages of the repository to their paths on the site. */
const sitePaths = new Map(pages.map(({ from, to }) => [from, to]))
const problems = []

rmSync(PAGES, { recursive: true, force: true })
for (const page of pages) copyPage(page)
generateHome()
for (const { tsconfig, entries } of REFERENCE) await generateReference(tsconfig, entries)
writeFileSync(join(PAGES, 'reference/index.md'), referenceIndex())
if (problems.length === 0) {
  const { status } = spawnSync('vitepress', ['build', '.'], { cwd: SITE, stdio: 'inherit' })
  if (status !== 0) problems.push('vitepress build failed')
  else checkAnchors(join(SITE, 'dist'))
}
for (const problem of problems) console.error(problem)
process.exitCode = problems.length > 0 ? 1 : 0

function copyPage({ from, to, title }) {
  const source = readFileSync(join(ROOT, from), 'utf8')
  const text = source.replaceAll(/^<!--.*-->\n/gm, '')
  const body = mapLinks(text, (link) => siteLink(link, from))
  const file = join(PAGES, `${to}.md`)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `---\ntitle: ${JSON.stringify(title)}\n---\n\n${body}`)
}

/** Generates the home page from home.md. The programs and the first command are copied from the README, where they are tested. */
function generateHome() {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
  /** Returns the first code block in a language under a heading. */
  const blockOf = (heading, language) => {
    const [, section = ''] = `\n${readme}`.split(new RegExp(`^#{1,2} ${heading}$`, 'm'))
    const [, code] = new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'm').exec(section) ?? []
    if (code === undefined) problems.push(`README.md has no ${language} under ${heading}`)
    return code
  }
  const home = readFileSync(join(SITE, 'home.md'), 'utf8')
    .replaceAll(
      /^\{\{program (.*)\}\}$/gm,
      (_, heading) => `\`\`\`ts [${heading}]\n${blockOf(heading, 'ts')}\`\`\``,
    )
    .replaceAll(/^\{\{command (.*)\}\}$/gm, (_, heading) => `\`\`\`sh\n${blockOf(heading, 'sh')}\`\`\``)
  // beside the headline: a client and a transaction, as in the README
  const lines = /^const db = [^]*?(?=await db\.batch)|^await db\.transaction[^]*?^\}\)$/gm
  const program = (blockOf('Without an ORM', 'ts') ?? '').match(lines)?.join('\n')
  if (program === undefined) problems.push('README.md has no transaction under Without an ORM')
  writeFileSync(join(PAGES, 'program.mjs'), `export default ${JSON.stringify(program)}\n`)
  writeFileSync(
    join(PAGES, 'index.md'),
    mapLinks(home, (link) => siteLink(link, 'README.md')),
  )
}

/** Changes the targets of links and images, except in code. */
function mapLinks(text, change) {
  return text
    .split(/(^```[^]*?^```$|`[^`\n]*`)/m)
    .map((part, index) =>
      index % 2 === 1 ? part : part.replaceAll(/\]\(([^)\s]+)\)/g, (_, link) => `](${change(link)})`),
    )
    .join('')
}

function siteLink(link, from) {
  if (/^(https?:|#)/.test(link)) return link
  const [path, anchor] = link.split('#')
  const target = posix.normalize(posix.join(dirname(from), path)).replace(/\/$/, '')
  const place = sitePaths.get(target)
  const hash = anchor === undefined ? '' : `#${anchor}`
  if (place !== undefined) return `/${place}.md${hash}`
  if (!existsSync(join(ROOT, target))) {
    problems.push(`${from}: the link ${link} is broken`)
    return link
  }
  if (/\.(png|svg)$/.test(target)) {
    const name = basename(target)
    cpSync(join(ROOT, target), join(PAGES, 'public', 'images', name))
    return `/images/${name}`
  }
  return `${REPOSITORY}/blob/main/${target}${hash}`
}

/** Generates a page for each entry point of a package, and for each of its exports except short types. */
async function generateReference(tsconfig, entries) {
  const out = join(PAGES, 'reference')
  const app = await Application.bootstrapWithPlugins({
    plugin: ['typedoc-plugin-markdown'],
    tsconfig: join(ROOT, tsconfig),
    entryPoints: Object.values(entries).map((file) => join(ROOT, file)),
    basePath: ROOT,
    readme: 'none',
    cleanOutputDir: false,
    outputFileStrategy: 'members',
    membersWithOwnFile: ['Function', 'Class', 'Variable', 'Interface'],
    groupOrder: ['Functions', 'Classes', 'Variables', '*'],
    out,
    fileExtension: '.md',
    entryFileName: 'index',
    hidePageHeader: true,
    hideBreadcrumbs: true,
    excludePrivate: true,
    excludeInternal: true,
    excludeExternals: true,
    disableSources: true,
    githubPages: false,
    // tsc checks the sources, with the version of TypeScript for which they are written
    skipErrorChecking: true,
    // members that are inherited from a class of another package link to classes of that package
    validation: false,
    parametersFormat: 'table',
    enumMembersFormat: 'table',
    useCodeBlocks: true,
    logLevel: 'Warn',
  })
  const project = await app.convert()
  for (const [name, file] of Object.entries(entries)) {
    const module = project?.children?.find(({ name: own }) => own === file.replace(/(\/index)?\.ts$/, ''))
    if (module === undefined) problems.push(`the reference lacks ${name}`)
    else module.name = name
  }
  if (project !== undefined) await app.generateOutputs(project)
  if (app.logger.hasErrors() || app.logger.hasWarnings()) problems.push('the reference cannot be generated')
}

function referenceIndex() {
  const names = REFERENCE.flatMap(({ entries }) => Object.keys(entries)).toSorted()
  return `# Reference\n\n${names.map((name) => `- [${name}](${name}/index.md)\n`).join('')}`
}

/** VitePress detects dead links to pages, but not to headings in them. */
function checkAnchors(folder) {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.html'),
  )
  const html = new Map(files.map((file) => [`/${file}`, readFileSync(join(folder, file), 'utf8')]))
  for (const [file, text] of html)
    for (const [, path, anchor] of text.matchAll(/<a[^>]* href="([^"#:]*)#([^"]+)"/g)) {
      const target = path === '' ? file : path.endsWith('/') ? `${path}index.html` : path
      const page = html.get(target) ?? html.get(`${target}.html`)
      if (page !== undefined && !page.includes(`id="${decodeURIComponent(anchor)}"`))
        problems.push(`${file}: #${anchor} not found in ${target}`)
    }
}
