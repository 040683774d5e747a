// Runs a task of this repository from any machine that has node >= 20.19 and npm: borrows the pinned pnpm, and a
// newer node where the machine's own is too old, for this one run. Nothing is installed outside the checkout
// and npm's cache.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

const MINIMUM = [22, 22]
/** The oldest that can borrow a newer one; `engines` in package.json says the same. */
const OLDEST = [20, 19]
const [task, ...rest] = process.argv.slice(2)
const root = fileURLToPath(new URL('..', import.meta.url))
const newNode = readFileSync(new URL('../.node-version', import.meta.url), 'utf8').trim()
const { packageManager } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
const pnpmArgs = task === 'install' ? ['install', ...rest] : ['run', `task:${task}`, ...rest]
const nodePackages = JSON.parse(readFileSync(new URL('node-packages.json', import.meta.url), 'utf8'))
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const isAtLeast = (version) => major > version[0] || (major === version[0] && minor >= version[1])
const nodeIsNew = isAtLeast(MINIMUM)
if (!isAtLeast(OLDEST)) {
  console.error(
    `Baton's tools need node ${OLDEST.join('.')} or newer, and this is node ${process.versions.node}.`,
  )
  process.exit(1)
}
const underPnpm = (process.env.npm_config_user_agent ?? '').startsWith('pnpm/')

const env = { ...process.env, TURBO_TELEMETRY_DISABLED: '1', DO_NOT_TRACK: '1' }
let command
let args
if (nodeIsNew && underPnpm && process.env.npm_execpath) {
  const isScript = /\.[cm]?js$/.test(process.env.npm_execpath)
  command = isScript ? process.execPath : process.env.npm_execpath
  args = isScript ? [process.env.npm_execpath, ...pnpmArgs] : pnpmArgs
  if (!isScript) env.PATH = dirname(command) + delimiter + env.PATH
} else {
  const packages = ['--package', packageManager]
  if (!nodeIsNew) {
    const nodePackage = nodePackages[`${process.platform}-${process.arch}`]
    if (nodePackage === undefined) {
      console.error(
        `Baton's tools need node >= ${MINIMUM.join('.')}; this is ${process.version} on ${process.platform}-${process.arch}, for which none can be borrowed. Install a newer node and try again.`,
      )
      process.exit(1)
    }
    packages.push('--package', `${nodePackage}@${newNode}`)
  }
  command = process.platform === 'win32' ? 'npx.cmd' : 'npx'
  // pnpm's install script puts the native binary in place; without it turbo cannot start pnpm
  const npxOptions = ['--yes', '--prefer-offline', '--ignore-scripts=false', '--loglevel', 'error']
  args = [...npxOptions, ...packages, '--', 'pnpm', ...pnpmArgs]
  // what the calling npm put into the environment must not steer the one that is called
  for (const name of Object.keys(env))
    if (/^npm_(config_(?!registry|cache|userconfig)|lifecycle|package|command)/i.test(name)) delete env[name]
}

const child = spawn(command, args, { cwd: root, env, stdio: 'inherit', shell: process.platform === 'win32' })
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('error', (error) => {
  console.error(`Could not start ${command}: ${error.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)))
