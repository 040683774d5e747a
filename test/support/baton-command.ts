import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, expect } from 'vitest'

const CLI = fileURLToPath(new URL('../../packages/cli/src/cli.ts', import.meta.url))
const FLAGS = ['--conditions=@batonsql/source', '--disable-warning=ExperimentalWarning']

// killed after the file, not after each test, because the processes of concurrent tests cannot be told apart
const runningProcesses = new Set<ChildProcess>()

/** Kills the processes of a test file that are still running. */
export function killRunningProcesses(): void {
  for (const child of runningProcesses) child.kill('SIGKILL')
}
afterAll(killRunningProcesses)

/** Kills a process after the tests of the file, if it is still running. */
export function killAfterTests(child: ChildProcess): void {
  runningProcesses.add(child)
  child.once('close', () => runningProcesses.delete(child))
}

/** The output of a command, and its exit code. */
export interface CommandResult {
  readonly code: number | null
  readonly output: string
  readonly errors: string
}

/** Returns the command line that runs the command from its sources. */
export const batonCommand = (args: readonly string[]): string[] => [process.execPath, ...FLAGS, CLI, ...args]

/** Returns the environment of this process with the settings of the test. */
export const batonEnv = (env: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv => ({
  ...process.env,
  NODE_OPTIONS: '',
  ...env,
})

/** Starts the command, and kills it after the tests of the file if it is still running. */
export function startBaton(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ChildProcessWithoutNullStreams {
  const [command, ...rest] = batonCommand(args) as [string, ...string[]]
  const child = spawn(command, rest, { env: batonEnv(env) })
  killAfterTests(child)
  return child
}

/** Reads a stream until its text matches, or else to its end, and closes it. @returns the text */
export async function readUntil(stream: AsyncIterable<unknown>, pattern: RegExp): Promise<string> {
  let text = ''
  for await (const part of stream) {
    text += String(part)
    if (pattern.test(text)) break
  }
  return text
}

/** Collects the output of a command until it exits. */
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

/** Expects a command to exit with a code and an error, and to print nothing else. */
export async function expectFailure(
  command: Promise<CommandResult>,
  code: number,
  error: string | RegExp,
): Promise<void> {
  const errors: unknown =
    typeof error === 'string' ? expect.stringContaining(error) : expect.stringMatching(error)
  expect(await command).toEqual({ code, output: '', errors })
}
