import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'

const CLI = fileURLToPath(new URL('../../packages/cli/src/cli.ts', import.meta.url))
const FLAGS = ['--conditions=@batonsql/source', '--disable-warning=ExperimentalWarning']

// not at the end of a test, because the processes of concurrent tests cannot be distinguished
const runningProcesses = new Set<ChildProcess>()
/** Stops the remaining processes of a test file. */
export function killRunning(): void {
  for (const child of runningProcesses) child.kill('SIGKILL')
}
afterAll(killRunning)

/** Stops a process when the test file ends, at the latest. */
export function endWithTests(child: ChildProcess): void {
  runningProcesses.add(child)
  child.once('close', () => runningProcesses.delete(child))
}

/** The output of a command, and its exit code. */
export interface CommandResult {
  readonly code: number | null
  readonly output: string
  readonly errors: string
}

/** Returns the command line with which node runs the command from its sources. */
export const batonCommand = (args: readonly string[]): string[] => [process.execPath, ...FLAGS, CLI, ...args]

/** Returns the environment of this process with the settings of the test. */
export const batonEnv = (env: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv => ({
  ...process.env,
  NODE_OPTIONS: '',
  ...env,
})

/** Starts the command. It is stopped after the tests of the file at the latest. */
export function startBaton(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcessWithoutNullStreams {
  const [command, ...rest] = batonCommand(args) as [string, ...string[]]
  const child = spawn(command, rest, { env: batonEnv(env) })
  endWithTests(child)
  return child
}

/** Collects what a command prints, until it ends. */
export async function collectOutput(child: ChildProcessWithoutNullStreams): Promise<CommandResult> {
  let [output, errors] = ['', '']
  child.stdout.on('data', (part) => (output += part))
  child.stderr.on('data', (part) => (errors += part))
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, output, errors }
}

/** Runs the command until it exits. */
export async function runBaton(
  args: readonly string[],
  { input = '', env = {} }: { readonly input?: string; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<CommandResult> {
  const child = startBaton(args, env)
  // the command may exit without having read its input
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  return await collectOutput(child)
}
