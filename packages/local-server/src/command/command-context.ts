import { once } from 'node:events'
import type { ReadStream, WriteStream } from 'node:tty'
import type { OptionTable, ValuesOf } from './option-table.ts'

/** What a command is run with. */
export interface CommandInput<Options extends OptionTable = OptionTable> {
  readonly values: ValuesOf<Options>
  /** What is no option, as many as the command takes. */
  readonly operands: readonly string[]
  readonly context: CommandContext
}

/** A command. Help, completion and documentation are made from these. */
export interface Command {
  /** What stands behind `baton`: one word, or two. */
  readonly words: readonly string[]
  /** What it takes besides options; those in brackets may be left out, of those with `|` one is chosen. */
  readonly operands: readonly string[]
  readonly summary: string
  /** More sentences for its own help. */
  readonly details?: string
  readonly options: OptionTable
  /** Loads the code of the command, and only that. */
  readonly load: () => Promise<(input: CommandInput) => Promise<void>>
}

/** What a command has to do with: its streams, the environment, what ends it, and what other commands there are. */
export interface CommandContext {
  readonly input: NodeJS.ReadableStream & Partial<Pick<ReadStream, 'isTTY'>>
  readonly output: NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY'>>
  readonly errors: NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY'>>
  readonly env: Readonly<Record<string, string | undefined>>
  readonly commands: readonly Command[]
  /** Aborted by Ctrl-C, and when the reader of the output has gone. */
  readonly signal: AbortSignal
}

/** The command was interrupted with Ctrl-C. Ends with exit code 130. */
export class Interrupted extends Error {}

/** The reader of the output has gone, as `head` does. Nothing is wrong. */
export class BrokenPipe extends Error {}

/** Writes to the output, at the pace of its reader. @throws the signal's reason */
export async function print({ output, signal }: CommandContext, text: string | Uint8Array): Promise<void> {
  signal.throwIfAborted()
  if (output.write(text)) return
  try {
    await once(output, 'drain', { signal })
  } catch (error) {
    signal.throwIfAborted()
    throw error
  }
}

/** Codes of terminals, by what they are for. */
const STYLES = { faint: '2', bold: '1' } as const

/** Marks up a text where it goes to a terminal that wants it: see https://no-color.org. */
export function styleFor({
  output,
  env,
}: CommandContext): (style: keyof typeof STYLES, text: string) => string {
  const isWanted = output.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
  return (style, text) => (isWanted ? `\u001b[${STYLES[style]}m${text}\u001b[0m` : text)
}
