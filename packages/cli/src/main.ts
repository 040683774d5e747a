import { addAbortSignal } from 'node:stream'
import { parseArgs } from 'node:util'
import { abortOnSignals } from './abort-on-signals.ts'
import {
  BrokenPipeError,
  type Command,
  type CommandContext,
  type CommandInput,
  InterruptedError,
} from './command-context.ts'
import { COMMANDS } from './command-table.ts'
import { describeError } from './describe-error.ts'
import { describeUnknownOption } from './describe-unknown-option.ts'
import { formatHelp, formatUsage, overview } from './help.ts'
import { PACKAGE_VERSION } from './package-version.ts'
import { UsageError } from './usage-error.ts'

/**
 * Runs the command that the arguments name, and reports errors on stderr.
 * @returns the exit code: 0; 1 on failure; 2 for invalid arguments; 130 or 143 if interrupted
 */
export async function main(args: readonly string[]): Promise<number> {
  const controller = new AbortController()
  abortOnSignals(controller)
  process.stdout.on('error', (error: NodeJS.ErrnoException) =>
    controller.abort(error.code === 'EPIPE' ? new BrokenPipeError() : error),
  )
  const { stdin, stdout: output, stderr, env } = process
  // an abort ends a command that waits for its input; without a listener, the error of the stream would end the process
  const input = addAbortSignal(controller.signal, stdin).on('error', () => {})
  try {
    await run(args, { input, output, stderr, env, commands: COMMANDS, signal: controller.signal })
    return 0
  } catch (error) {
    const cause = findRootCause(error)
    if (cause instanceof BrokenPipeError) return 0
    if (cause instanceof InterruptedError) return cause.exitCode
    stderr.write(`${describeError(error)}\n`)
    return error instanceof UsageError ? 2 : 1
  }
}

async function run(args: readonly string[], context: CommandContext): Promise<void> {
  const { output } = context
  const [firstArg] = args
  if (firstArg === '--version' || firstArg === '-v') return void output.write(`${PACKAGE_VERSION}\n`)
  if (firstArg === '--help' || firstArg === '-h' || firstArg === 'help') return void output.write(overview())
  if (firstArg === undefined) throw new UsageError(`${overview()}\nbaton: missing command`)
  if (args.length === 2 && isHelp(args[1])) {
    const group = COMMANDS.filter(({ words }) => words[0] === firstArg)
    if (group.length > 0) return void output.write(group.map(formatHelp).join('\n'))
  }
  const command = findCommand(args)
  const { ownArgs, rest } = splitArguments(command, args.slice(command.words.length))
  if (ownArgs.some(isHelp)) return void output.write(formatHelp(command))
  const input = parse(command, ownArgs)
  const runCommand = await command.load()
  await runCommand({ ...input, rest, context })
}

/** Splits the arguments of a command from the command that it runs, which is given after `--`. */
function splitArguments(
  { takesCommand = false }: Command,
  args: readonly string[],
): { readonly ownArgs: readonly string[]; readonly rest: readonly string[] } {
  const end = takesCommand ? args.indexOf('--') : -1
  return end < 0 ? { ownArgs: args, rest: [] } : { ownArgs: args.slice(0, end), rest: args.slice(end + 1) }
}

const isHelp = (arg: string | undefined): boolean => arg === '--help' || arg === '-h'

/** Returns the innermost cause of an error: after an abort, the signal's reason, whatever error the aborted call threw. */
function findRootCause(error: unknown): unknown {
  return error instanceof Error && error.cause !== undefined ? findRootCause(error.cause) : error
}

function findCommand(args: readonly string[]): Command {
  const [firstWord = '', secondWord] = args
  const group = COMMANDS.filter(({ words }) => words[0] === firstWord)
  if (group.length === 0) throw new UsageError(`unknown command "${firstWord}"; see \`baton --help\``)
  const command = group.find(({ words }) => words.length === 1 || words[1] === secondWord)
  if (command) return command
  const usages = group.map((candidate) => `  ${formatUsage(candidate)}`)
  throw new UsageError(
    `baton ${firstWord}: ${secondWord === undefined ? 'missing command' : `unknown command "${secondWord}"`}\n\n${usages.join('\n')}`,
  )
}

function parse(command: Command, args: readonly string[]): Pick<CommandInput, 'values' | 'operands'> {
  const name = `baton ${command.words.join(' ')}`
  const { options, operands = [] } = command
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    const requiredOperands = operands.filter((operand) => !operand.startsWith('['))
    const missingOperands = requiredOperands.slice(positionals.length)
    if (missingOperands.length > 0) throw new UsageError(`missing ${missingOperands.join(' and ')}`)
    const extraOperands = positionals.slice(operands.length)
    if (extraOperands.length > 0)
      throw new UsageError(`unexpected argument ${JSON.stringify(extraOperands[0])}`)
    // for example from an unset shell variable; by its position, because with DATABASE_URL the database may be left out
    const emptyIndex = positionals.indexOf('')
    if (emptyIndex !== -1) throw new UsageError(`argument ${emptyIndex + 1} is empty`)
    const isEmpty = (option: string): boolean => [values[option]].flat().includes('')
    const emptyOption = Object.keys(values).find((option) => isEmpty(option) && !options[option]?.mayBeEmpty)
    if (emptyOption !== undefined) throw new UsageError(`--${emptyOption} is empty`)
    return { values, operands: positionals }
  } catch (error) {
    const unknownName = /^Unknown option '(--?[^']+)'/.exec((error as Error).message)?.[1]
    const message =
      unknownName === undefined ? (error as Error).message : describeUnknownOption(unknownName, options)
    throw new UsageError(`  ${formatUsage(command)}\n\n${name}: ${message}`)
  }
}
