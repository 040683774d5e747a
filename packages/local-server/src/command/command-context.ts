import { once } from 'node:events'
import type { ReadStream, WriteStream } from 'node:tty'

/** What a command has to do with: its streams, the environment, and what ends it. */
export interface CommandContext {
  readonly input: NodeJS.ReadableStream & Partial<Pick<ReadStream, 'isTTY'>>
  readonly output: NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY'>>
  readonly errors: NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY'>>
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted by Ctrl-C, and when nobody reads the output any more. */
  readonly signal: AbortSignal
}

/** The command was interrupted with Ctrl-C. Ends with exit code 130. */
export class Interrupted extends Error {}

/** Whoever read the output has gone, as `head` does. Nothing is wrong. */
export class BrokenPipe extends Error {}

/** Writes to the output, at the pace of whoever reads it. @throws the signal's reason */
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
