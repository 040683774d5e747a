import { createInterface } from 'node:readline/promises'
import { createPlatformClient, type PlatformClient } from '@batonsql/platform'
import { type CommandContext, type CommandInput, print } from './command-context.ts'
import type { API_OPTIONS, OptionTable, ValuesOf } from './option-table.ts'
import { UsageError } from './usage-error.ts'

/** What a command prints. */
export interface Answer {
  /** With `--json`. */
  readonly json: unknown
  /** Without: lines, or rows of cells, which stand in columns. */
  readonly text: string | readonly (readonly string[])[]
}

/** What a command is given besides the client. */
export interface ApiCall<Options extends OptionTable> {
  readonly values: ValuesOf<Options>
  readonly operands: readonly string[]
  /** To be passed on with every request. */
  readonly signal: AbortSignal
}

/**
 * Makes a command of a question to the platform API.
 * @param isSure is asked first
 */
export function apiCommand<Options extends typeof API_OPTIONS>(
  ask: (platform: PlatformClient, call: ApiCall<Options>) => Promise<Answer>,
  isSure: (input: CommandInput<Options>) => Promise<void> = async () => {},
): (input: CommandInput<Options>) => Promise<void> {
  return async (input) => {
    await isSure(input)
    const { operands, context } = input
    // its options are among these
    const values = input.values as ValuesOf<Options> & ValuesOf<typeof API_OPTIONS>
    const platform = await openPlatform(values, context)
    const { json, text } = await ask(platform, { values, operands, signal: context.signal })
    if (values.json) return await print(context, `${JSON.stringify(json)}\n`)
    for (const line of typeof text === 'string' ? [text] : inColumns(text)) await print(context, `${line}\n`)
  }
}

/** Columns of numbers stand to the right. */
function inColumns(rows: readonly (readonly string[])[]): string[] {
  const [, ...others] = rows
  const isNumeric = (column: number): boolean => others.every((cells) => /^\d+$/.test(cells[column] ?? ''))
  const widthOf = (column: number): number => Math.max(...rows.map((cells) => cells[column]?.length ?? 0))
  const pad = (cell: string, column: number): string =>
    others.length > 0 && isNumeric(column) ? cell.padStart(widthOf(column)) : cell.padEnd(widthOf(column))
  return rows.map((cells) => cells.map(pad).join('  ').trimEnd())
}

/** Asks in a terminal whether something is to be deleted, which has to be named again. @param words as `databases destroy` */
export function askBefore(
  words: string,
): (
  input: CommandInput<
    typeof API_OPTIONS & { readonly yes: { readonly type: 'boolean'; readonly help: string } }
  >,
) => Promise<void> {
  return async ({ values, operands, context: { input, errors, signal } }) => {
    const [name] = operands as [string]
    if (values.yes === true) return
    if (input.isTTY !== true)
      throw new UsageError(
        `baton ${words}: there is no terminal to ask in; --yes deletes "${name}" without asking`,
      )
    const lines = createInterface({ input, output: errors })
    // without this Ctrl-C is an error of the question
    lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'))
    try {
      const answer = await lines.question(`Delete "${name}" with everything in it? Type its name: `, {
        signal,
      })
      if (answer.trim() !== name) throw new Error(`"${name}" was not deleted`)
    } finally {
      lines.close()
    }
  }
}

/**
 * A client of the platform API that the command line, or the environment, names.
 * @throws UsageError when it names none, or an organization has to be chosen
 */
async function openPlatform(
  values: ValuesOf<typeof API_OPTIONS>,
  context: CommandContext,
): Promise<PlatformClient> {
  const platform = platformOf(values, context)
  if (values.organization !== undefined) return platform.forOrganization(values.organization)
  const slugs = (await platform.organizations.list({ signal: context.signal })).map(({ slug }) => slug)
  const [only, ...others] = slugs
  if (only === undefined || others.length > 0)
    throw new UsageError(`baton: choose an organization with --organization: ${slugs.join(', ')}`)
  return platform.forOrganization(only)
}

/** The same, for all organizations of the token. @throws UsageError when it names none */
export function platformOf(
  values: Pick<ValuesOf<typeof API_OPTIONS>, 'api-url' | 'token'>,
  { env }: CommandContext,
): PlatformClient {
  const url = values['api-url'] ?? env['BATON_API_URL']
  const token = values.token ?? env['BATON_API_TOKEN'] ?? env['TURSO_API_TOKEN']
  if (url === undefined)
    throw new UsageError('baton: say where the platform API is: --api-url, or BATON_API_URL')
  if (token === undefined) throw new UsageError('baton: an API token is missing: --token, or BATON_API_TOKEN')
  return asUsage(() => createPlatformClient({ url, token }))
}

function asUsage<T>(make: () => T): T {
  try {
    return make()
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(`baton: ${error.message}`)
    throw error
  }
}
