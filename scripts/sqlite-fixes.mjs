// Checks that the table of SQLite's later fixes in the documentation is that of sqlite-fixes.json (`--write` updates it), and that
// the file lists every release since then, if SQLite's own list can be reached.
import { readFileSync, writeFileSync } from 'node:fs'

const DATA = 'internal/embedded-engine/wasm/sqlite-fixes.json'
const PAGE = 'packages/local-server/docs/engine.md'
const RELEASES_URL = 'https://www.sqlite.org/changes.html'
const TIMEOUT_MS = 10_000

const { base, releases, fixes } = JSON.parse(readFileSync(DATA, 'utf8'))
const problems = []

const open = Object.keys(releases).filter((version) => releases[version] === 'open')
const rows = fixes.map(
  ({ fault, fixedIn, embedded, sqld }) => `| ${fault} | ${fixedIn} | ${embedded} | ${sqld} |\n`,
)
const table =
  `| fault | fixed in | embedded | libsql-server 0.24.32 |\n|---|---|---|---|\n${rows.join('')}\n` +
  `Not compared with ${base} yet: the changes of ${open.join(', ')}.\n`
const page = readFileSync(PAGE, 'utf8')
const updated = page.replace(/\| fault \| fixed in \|[\s\S]*?\n\nNot compared .*\n/, () => table)
if (!updated.includes(table)) problems.push(`${PAGE} has no table of fixes`)
else if (updated !== page && process.argv.includes('--write')) writeFileSync(PAGE, updated)
else if (updated !== page)
  problems.push(`${PAGE} differs from ${DATA}: node scripts/sqlite-fixes.mjs --write`)

// other runs do not depend on the network
if (process.env.CI) await compareWithUpstream()

for (const problem of problems) console.error(problem)
process.exitCode = problems.length === 0 ? 0 : 1

async function compareWithUpstream() {
  try {
    const response = await fetch(RELEASES_URL, { signal: AbortSignal.timeout(TIMEOUT_MS) })
    if (!response.ok) throw new Error(`status ${response.status}`)
    const upstream = [...(await response.text()).matchAll(/\((3\.\d+\.\d+)\)/g)].map(([, version]) => version)
    const toNumber = (version) =>
      version.split('.').reduce((number, part) => number * 1_000 + Number(part), 0)
    const missing = new Set(
      upstream.filter((version) => toNumber(version) > toNumber(base) && !(version in releases)),
    )
    if (upstream.length === 0) problems.push(`${RELEASES_URL} lists no release`)
    if (missing.size > 0)
      problems.push(`${DATA} does not list SQLite ${[...missing].join(', ')}: compare its changes`)
  } catch (error) {
    console.log(
      `SKIPPED: the comparison with ${RELEASES_URL}, which is not reachable (${error.cause?.code ?? error.message})`,
    )
  }
}
