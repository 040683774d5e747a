// Packs the published packages into a folder (default: packed), and prints the command that installs them in another project. They
// name each other, so they must be installed together. Also prints the command that replaces @libsql/client, which needs them.
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'

const folder = resolve(process.argv[2] ?? 'packed')
for (const file of globSync(`${folder}/batonsql-*.tgz`)) rmSync(file)
mkdirSync(folder, { recursive: true })
run('turbo', ['run', 'build', '--output-logs=errors-only'])
// already built
for (const path of globSync('packages/*'))
  run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], path)

const files = globSync(`${folder}/batonsql-*.tgz`).sort()
console.log(`\nIn your project, run:\n\nnpm install ${files.join(' ')}\n`)
const replacement = files.find((file) => file.includes('/batonsql-libsql-client-'))
console.log(`To replace @libsql/client with Baton as well:\n\nnpm install @libsql/client@${replacement}\n`)

function run(command, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    shell: process.platform === 'win32',
  })
  if (status === 0) return
  console.error(
    `${command} ${args.join(' ')} failed${cwd === undefined ? '' : ` in ${cwd}`}:\n${error ?? stdout + stderr}`,
  )
  process.exit(1)
}
