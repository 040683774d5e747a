import type { CommandInput } from './command-context.ts'
import { type CommandOutput, printOutput } from './command-output.ts'
import type { DATABASE_OPTIONS } from './option-table.ts'
import { findApiUrl } from './platform-commands.ts'
import { UsageError } from './usage-error.ts'

/** The two forms of a command, and the options that only a server of this machine has. */
interface ServerOrPlatform<Options extends typeof DATABASE_OPTIONS> {
  readonly onServer: (input: CommandInput<Options>) => Promise<CommandOutput>
  readonly onPlatform: (input: CommandInput<Options>) => Promise<void>
  readonly onlyOnServer?: readonly string[]
}

/** Creates a command that uses a platform API if one is given, and otherwise a running server of this machine. */
export function withServerOrPlatform<Options extends typeof DATABASE_OPTIONS>({
  onServer,
  onPlatform,
  onlyOnServer = [],
}: ServerOrPlatform<Options>): (input: CommandInput<Options>) => Promise<void> {
  return async (input) => {
    const { context } = input
    const values: Readonly<Record<string, unknown>> = input.values
    const find = (names: readonly string[]): string | undefined =>
      names.find((name) => values[name] !== undefined)
    const serverOption = find(['port', 'data', ...onlyOnServer])
    const platformOption = find(['api-url', 'token', 'organization'])
    if (serverOption !== undefined && platformOption !== undefined)
      throw new UsageError(
        `baton: --${serverOption} is for a server of this machine, --${platformOption} for a platform API`,
      )
    const usesPlatform = serverOption === undefined && findApiUrl(input.values, context) !== undefined
    if (usesPlatform || platformOption !== undefined) return await onPlatform(input)
    await printOutput(await onServer(input), values['json'] === true, context)
  }
}
