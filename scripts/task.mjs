// Runs a command of this repository on any machine that has node >= 20.19 and npm: downloads the pinned pnpm, and a newer node if
// the installed one is too old, for this run only. Nothing is installed outside the checkout and npm's cache. `pnpm exec`
// installs the dependencies first if they are out of date.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { NPX, nodePackage, withoutNpm } from './npx.mjs'

const MINIMUM = [22, 22]
/** The oldest node that can download a newer one; the same as `engines` in package.json. */
const OLDEST = [20, 19]
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const isAtLeast = (version) => major > version[0] || (major === version[0] && minor >= version[1])

function fail(message) {
  console.error(message)
  process.exit(1)
}

/** Returns a command that downloads pnpm, and a newer node if needed, and runs pnpm. */
function downloadPnpm() {
  const { packageManager } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  const packages = ['--package', packageManager]
  if (!isAtLeast(MINIMUM)) {
    const node = nodePackage(readFileSync(new URL('../.node-version', import.meta.url), 'utf8').trim())
    if (node === null)
      fail(
        `Baton's tools need node >= ${MINIMUM.join('.')}; this is ${process.version} on ${process.platform}-${process.arch}, for which no newer one can be downloaded. Install a newer node and try again.`,
      )
    packages.push('--package', node)
  }
  return [...NPX, ...packages, '--', 'pnpm']
}

if (!isAtLeast(OLDEST))
  fail(`Baton's tools need node ${OLDEST.join('.')} or newer, but this is node ${process.versions.node}.`)
const args = process.argv.slice(2)
const isUnderPnpm = isAtLeast(MINIMUM) && (process.env.npm_config_user_agent ?? '').startsWith('pnpm/')
const [command, ...options] = isUnderPnpm ? ['pnpm'] : downloadPnpm()
const child = spawn(command, [...options, ...(args[0] === 'pnpm' ? args.slice(1) : ['exec', ...args])], {
  cwd: fileURLToPath(new URL('..', import.meta.url)),
  env: {
    ...(isUnderPnpm ? process.env : withoutNpm(process.env)),
    TURBO_TELEMETRY_DISABLED: '1',
    DO_NOT_TRACK: '1',
  },
  stdio: 'inherit',
  shell: process.platform === 'win32',
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('error', (error) => fail(`Could not start ${command}: ${error.message}`))
child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)))
