import { execFile } from 'node:child_process'
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { NPX, nodePackage, withoutNpm } from '../../scripts/npx.mjs'

export const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const { packageManager } = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
) as {
  packageManager: string
}

/** Returns the environment of a user, without the variables set by the npm, pnpm and node processes that run the tests. */
export function cleanEnvironment(variables: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  const entries = Object.entries(withoutNpm(process.env))
  return {
    ...Object.fromEntries(entries.filter(([name]) => !/^(?:NODE_OPTIONS$|VITEST)/i.test(name))),
    ...variables,
  }
}

export interface RunOptions {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
}

/** Runs a program until it exits. @throws an error with all of its output */
export async function run(command: readonly string[], { cwd, env = {} }: RunOptions): Promise<string> {
  const [program, ...args] = command as [string, ...string[]]
  try {
    const options = { cwd, env: cleanEnvironment(env), timeout: 500_000 }
    return (await promisify(execFile)(program, args, options)).stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command.join(' ')} failed: ${String(error)}\n${stdout}\n${stderr}`, { cause: error })
  }
}

/** Runs the version of pnpm that package.json names. */
export const pnpm = (args: readonly string[], options: RunOptions): Promise<string> =>
  run([...NPX, '--package', packageManager, '--', 'pnpm', ...args], options)

/** Returns why nothing can be installed on this machine, or null if packages can be installed. */
export async function registryProblem(): Promise<string | null> {
  try {
    await run(['npm', 'view', 'kysely', 'version', '--fetch-retries', '0'], { cwd: ROOT })
    return null
  } catch (error) {
    // if the other packages could be installed, this failure must not count as a skip
    if (process.env['CI'] && process.platform === 'linux') throw error
    return 'the npm registry does not respond'
  }
}

/** A program that runs JavaScript, for the tests of this run. */
export interface Runtime {
  /** Its name and version. */
  readonly name: string
  /** The command or the module that starts it; null if this machine cannot run it. */
  readonly command: readonly string[] | null
  /** Why this machine cannot run it. */
  readonly unavailableReason: string | null
}

/** Downloads a version of node from the npm registry into npm's cache. */
export async function downloadNode(version: string): Promise<Runtime> {
  const packageName = nodePackage(version)
  if (packageName === null)
    return { name: `node ${version}`, command: null, unavailableReason: 'npm has no build for this platform' }
  return await download(`node ${version}`, packageName, 'node -p process.execPath')
}

export const downloadBun = (version: string): Promise<Runtime> =>
  download(`Bun ${version}`, `bun@${version}`, 'bun -p process.execPath')

export async function downloadDeno(version: string): Promise<Runtime> {
  const deno = await download(
    `Deno ${version}`,
    `deno@${version}`,
    'deno eval "console.log(Deno.execPath())"',
  )
  return { ...deno, command: deno.command && [...deno.command, 'run', '--allow-all'] }
}

/** Downloads a package. The `command` is the folder of its executables, from which the package can also be imported. */
export async function downloadModule(name: string, packageName: string): Promise<Runtime> {
  // npx puts its folder first on the path
  return await download(name, packageName, 'node -p "process.env.PATH.split(path.delimiter)[0]"')
}

async function download(name: string, packageName: string, printPath: string): Promise<Runtime> {
  try {
    const path = await run([...NPX, '--package', packageName, '--call', printPath], { cwd: ROOT })
    return { name, command: [path.trim()], unavailableReason: null }
  } catch (error) {
    // if the other packages could be installed, this failure must not count as a skip
    if (process.env['CI'] && process.platform === 'linux') throw error
    return { name, command: null, unavailableReason: 'it could not be downloaded from the npm registry' }
  }
}

/** Copies an example to where the packages are installed. @returns the folder */
export function copyExample(name: string, project: string): string {
  const folder = join(project, name)
  cpSync(join(ROOT, 'examples', name), folder, {
    recursive: true,
    filter: (path) => !path.includes('node_modules'),
  })
  return folder
}
