import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'vitest'
import { batonCommand, batonEnv, killAfterTests } from './baton-command.ts'
import { waitFor } from './wait-for.ts'

/** Why this machine has no terminal; null if it has one. */
export const terminalProblem: string | null =
  process.platform === 'linux' && spawnSync('script', ['--version']).status === 0
    ? null
    : 'the prompt in a terminal: `script` from util-linux is missing'

/** Runs the command in a terminal that `script` from util-linux provides. */
export class Terminal {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #closed: Promise<unknown[]>
  #output = ''

  /** @param stateDirectory directory for the command's state */
  constructor(args: readonly string[], stateDirectory: string, env: Readonly<Record<string, string>> = {}) {
    const command = batonCommand(args).map((word) => `'${word}'`)
    const terminalEnv = batonEnv({ NO_COLOR: '1', TERM: 'xterm', XDG_STATE_HOME: stateDirectory, ...env })
    this.#child = spawn('script', ['-qec', command.join(' '), '/dev/null'], { env: terminalEnv })
    killAfterTests(this.#child)
    this.#closed = once(this.#child, 'close')
    this.#child.stdout.on('data', (part) => (this.#output += part))
  }

  /** What is shown and was not discarded. */
  get output(): string {
    return this.#output
  }

  type(keys: string): void {
    this.#child.stdin.write(keys)
  }

  /** Waits until the text is shown; returns and discards all output up to and including it. */
  async waitForText(text: string): Promise<string> {
    await waitFor(() => expect(this.#output).toContain(text))
    const end = this.#output.indexOf(text) + text.length
    const shownOutput = this.#output.slice(0, end)
    this.#output = this.#output.slice(end)
    return shownOutput
  }

  /** Types a line and waits for the next prompt. */
  async run(line: string, prompt = 'baton> '): Promise<string> {
    this.type(`${line}\n`)
    // the terminal echoes typed text
    await this.waitForText(line.slice(-1))
    return await this.waitForText(prompt)
  }

  /** Waits until the command exits. @returns its exit code */
  async waitForExit(): Promise<number> {
    const [code] = (await this.#closed) as [number]
    return code
  }
}
