// Publishes the packages whose version is not in the registry yet, each after its dependencies, with a signed provenance
// statement. It can be run repeatedly, because published versions are skipped. `--dry-run` sends nothing.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const FOLDERS = [
  'core',
  'platform',
  'kysely-dialect',
  'drizzle-driver',
  'libsql-client',
  'local-server',
  'cli',
]
const isDryRun = process.argv.includes('--dry-run')

for (const folder of FOLDERS) {
  const cwd = fileURLToPath(new URL(`../packages/${folder}/`, import.meta.url))
  const { name, version } = JSON.parse(readFileSync(`${cwd}package.json`, 'utf8'))
  if (isPublished(`${name}@${version}`)) {
    console.log(`${name}@${version} is already published`)
    continue
  }
  // provenance can be signed only in a GitHub workflow
  const options = isDryRun ? ['--dry-run'] : ['--provenance']
  const { status } = spawnSync('npm', ['publish', '--access', 'public', ...options], {
    cwd,
    stdio: 'inherit',
  })
  if (status !== 0) {
    console.error(`${name}@${version} was not published, nor were the packages after it`)
    process.exit(1)
  }
  console.log(`${name}@${version} is published`)
}

function isPublished(spec) {
  const { status, stdout, stderr } = spawnSync('npm', ['view', spec, 'version', '--json'], {
    encoding: 'utf8',
  })
  if (status === 0) return stdout.trim() !== ''
  if (/E404/.test(stdout + stderr)) return false
  throw new Error(stderr)
}
