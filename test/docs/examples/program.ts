import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'

export type Program = ChildProcessByStdio<null, Readable, Readable>

/** Starts an example's program with the sources of the packages. @param file its path in the example's folder */
export function startExample(
  example: string,
  file: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
): Program {
  const { NODE_OPTIONS: _, ...env } = process.env
  return spawn(process.execPath, ['--conditions=@batonsql/source', '--no-warnings', file, ...args], {
    cwd: fileURLToPath(new URL(`../../../examples/${example}/`, import.meta.url)),
    env: { ...env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

export interface ProgramResult {
  readonly code: number | null
  readonly output: string
  readonly errors: string
}

/** Waits for a program to exit, and returns its output. */
export async function waitForExit(program: Program): Promise<ProgramResult> {
  let [output, errors] = ['', '']
  program.stdout.on('data', (part: Buffer) => (output += part.toString()))
  program.stderr.on('data', (part: Buffer) => (errors += part.toString()))
  const [code] = (await once(program, 'close')) as [number | null]
  return { code, output, errors }
}
