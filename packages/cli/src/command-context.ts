import { once } from 'node:events'
import type { ReadStream, WriteStream } from 'node:tty'
import type { OptionTable, ValuesOf } from './option-table.ts'

export interface CommandInput<Options extends OptionTable = OptionTable> {
  readonly values: ValuesOf<Options>
  /** Arguments that are not options; their number has been checked. */
  readonly operands: readonly string[]
  /** The arguments after `--` of a command that runs another one. @default none */
  readonly rest?: readonly string[]
  readonly context: CommandContext
}

/** A command; help, completion and documentation are generated from these. */
export interface Command {
  /** Its name after `baton`, one or two words. */
  readonly words: readonly string[]
  /** Its arguments; those in brackets are optional, those with `|` are alternatives. @default none */
  readonly operands?: readonly string[]
  /** Whether it runs another command, given after `--`. @default false */
  readonly takesCommand?: boolean
  readonly summary: string
  /** Additional sentences for its help. */
  readonly details?: string
  readonly options: OptionTable
  /** Loads the command's module. */
  readonly load: () => Promise<(input: CommandInput) => Promise<void>>
}

/** The environment of a command: streams, variables, the abort signal, and all commands. */
export interface CommandContext {
  readonly input: NodeJS.ReadableStream & Partial<Pick<ReadStream, 'isTTY'>>
  readonly output: NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY'>>
  readonly stderr: NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY'>>
  readonly env: Readonly<Record<string, string | undefined>>
  readonly commands: readonly Command[]
  /** Aborted by Ctrl-C and SIGTERM, and when the reader of the output is closed. */
  readonly signal: AbortSignal
}

/** The command was interrupted with Ctrl-C or SIGTERM. */
export class InterruptedError extends Error {
  readonly exitCode: number

  constructor(exitCode: number) {
    super('interrupted')
    this.exitCode = exitCode
  }
}

/** The reader of the output was closed, for example by `head`. Not an error. */
export class BrokenPipeError extends Error {}

/** Writes to the output, and waits while its buffer is full. @throws the signal's reason */
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
