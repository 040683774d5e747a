import { createInterface } from 'node:readline/promises'
import type { CommandInput } from './command-context.ts'
import type { API_OPTIONS } from './option-table.ts'
import { UsageError } from './usage-error.ts'

/**
 * Asks the user to confirm a deletion by typing the name of the object in the terminal.
 * @param commandWords such as `databases destroy`
 * @param question what is deleted, for an object with this name
 */
export function confirmDeletion(
  commandWords: string,
  question = (name: string): string => `Delete "${name}" and all its data?`,
): (
  input: CommandInput<
    typeof API_OPTIONS & { readonly yes: { readonly type: 'boolean'; readonly help: string } }
  >,
) => Promise<void> {
  return async ({ values, operands, context: { input, stderr, signal } }) => {
    const [name] = operands as [string]
    if (values.yes === true) return
    if (input.isTTY !== true)
      throw new UsageError(
        `baton ${commandWords}: confirmation needs a terminal; --yes confirms for "${name}"`,
      )
    const lines = createInterface({ input, output: stderr })
    // without this, Ctrl-C would reject the question instead of interrupting the command
    lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
    // the input ends when the command is interrupted
    lines.on('error', () => {})
    try {
      const response = await lines.question(`${question(name)} Type its name to confirm: `, { signal })
      if (response.trim() !== name) throw new Error(`nothing was deleted: the answer was not "${name}"`)
    } finally {
      lines.close()
    }
  }
}
