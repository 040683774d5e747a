import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const { packageManager } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as {
  packageManager: string
}
const NPX = ['npx', '--yes', '--prefer-offline', '--ignore-scripts=false', '--loglevel', 'error']

/** The environment of a user: nothing of what the npm, pnpm and node that run the tests have put into it. */
export function cleanEnvironment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const names = Object.keys(process.env).filter(
    (name) =>
      !/^(npm_(config_(?!registry|cache|userconfig)|lifecycle|package|command)|NODE_OPTIONS$|VITEST)/i.test(
        name,
      ),
  )
  return { ...Object.fromEntries(names.map((name) => [name, process.env[name]])), ...more }
}

export interface RunOptions {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
}

/** Runs a program to its end. @throws with everything that it said */
export async function run(command: readonly string[], { cwd, env = {} }: RunOptions): Promise<string> {
  const [program, ...args] = command as [string, ...string[]]
  try {
    const options = { cwd, env: cleanEnvironment(env), timeout: 120_000 }
    return (await promisify(execFile)(program, args, options)).stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command.join(' ')} failed: ${String(error)}\n${stdout}\n${stderr}`, { cause: error })
  }
}

/** Runs the pnpm that package.json names. */
export const pnpm = (args: readonly string[], options: RunOptions): Promise<string> =>
  run([...NPX, '--package', packageManager, '--', 'pnpm', ...args], options)

/** A node of another version, for the tests of this run. */
export interface BorrowedNode {
  readonly version: string
  /** The program, or null when this machine cannot have it. */
  readonly path: string | null
  /** Why it cannot. */
  readonly unavailable: string | null
}

/** Gets a node from the npm registry, into npm's cache. */
export async function borrowNode(version: string): Promise<BorrowedNode> {
  const names = JSON.parse(readFileSync(new URL('../../scripts/node-packages.json', import.meta.url), 'utf8'))
  const name = (names as Record<string, string>)[`${process.platform}-${process.arch}`]
  if (name === undefined) return { version, path: null, unavailable: `npm has no node for this platform` }
  try {
    const args = ['--package', `${name}@${version}`, '--call', 'node -p process.execPath']
    return { version, path: (await run([...NPX, ...args], { cwd: ROOT })).trim(), unavailable: null }
  } catch (error) {
    // where everything else was installed a moment ago, this must not pass for a skip
    if (process.env['CI'] && process.platform === 'linux') throw error
    return { version, path: null, unavailable: 'the npm registry does not answer' }
  }
}
