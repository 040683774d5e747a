import { createInterface } from 'node:readline/promises'
import { createPlatformClient, type PlatformClient } from '@batonsql/platform'
import { type CommandContext, type CommandInput, print } from './command-context.ts'
import {
  type ACCOUNT_OPTIONS,
  type API_OPTIONS,
  type OptionTable,
  SWITCH,
  type ValuesOf,
} from './option-table.ts'
import { readChoice } from './read-choice.ts'
import { UsageError } from './usage-error.ts'

/** The output of a command. */
export interface CommandOutput {
  /** Printed with `--json`. */
  readonly json: unknown
  /** Printed without it: lines, or rows of cells that are aligned in columns. */
  readonly text: string | readonly (readonly string[])[]
}

/** The input of a command, besides the client. */
interface ApiCall<Options extends OptionTable> {
  readonly values: ValuesOf<Options>
  readonly operands: readonly string[]
  /** Must be passed to every request. */
  readonly signal: AbortSignal
  readonly context: CommandContext
}

type Action<Options extends OptionTable> = (
  platform: PlatformClient,
  call: ApiCall<Options>,
) => Promise<CommandOutput>

/** Creates a command that uses the platform API on behalf of the token's user. */
export function accountCommand<Options extends typeof ACCOUNT_OPTIONS>(
  action: Action<Options>,
): (input: CommandInput<Options>) => Promise<void> {
  return async (input) => {
    const { operands, context } = input
    // includes the options of the platform API
    const values = input.values as ValuesOf<Options> & ValuesOf<typeof ACCOUNT_OPTIONS>
    const platform = createAccountClient(values, context)
    const output = await action(platform, { values, operands, signal: context.signal, context })
    await printOutput(output, values.json, context)
  }
}

export async function printOutput(
  { json, text }: CommandOutput,
  asJson: boolean | undefined,
  context: CommandContext,
): Promise<void> {
  if (asJson === true) return await print(context, `${JSON.stringify(json)}\n`)
  for (const line of typeof text === 'string' ? [text] : alignColumns(text)) await print(context, `${line}\n`)
}

/**
 * Creates a command that uses the platform API on behalf of an organization.
 * @param confirm asks for confirmation first
 */
export function apiCommand<Options extends typeof API_OPTIONS>(
  action: Action<Options>,
  confirm: (input: CommandInput<Options>) => Promise<void> = async () => {},
): (input: CommandInput<Options>) => Promise<void> {
  const runCommand = accountCommand<Options>(async (platform, call) => {
    const { organization } = call.values as ValuesOf<typeof API_OPTIONS>
    const slug = organization ?? (await getOnlyOrganization(platform, call.signal))
    return await action(platform.forOrganization(slug), call)
  })
  return async (input) => {
    await confirm(input)
    await runCommand(input)
  }
}

/** Returns the slug of the only organization that the token can access. @throws UsageError if there are several, or none */
export async function getOnlyOrganization(platform: PlatformClient, signal: AbortSignal): Promise<string> {
  const slugs = (await platform.organizations.list({ signal })).map(({ slug }) => slug)
  const [slug, ...others] = slugs
  if (slug === undefined || others.length > 0)
    throw new UsageError(`baton: choose an organization with --organization: ${slugs.join(', ')}`)
  return slug
}

/** Aligns rows in columns. A column is right-aligned if all its cells after the first row, which may be a header, are numbers. */
function alignColumns(rows: readonly (readonly string[])[]): string[] {
  const [, ...dataRows] = rows
  const isNumeric = (column: number): boolean => dataRows.every((cells) => /^\d+$/.test(cells[column] ?? ''))
  const columnWidth = (column: number): number => Math.max(...rows.map((cells) => cells[column]?.length ?? 0))
  const pad = (cell: string, column: number): string =>
    dataRows.length > 0 && isNumeric(column)
      ? cell.padStart(columnWidth(column))
      : cell.padEnd(columnWidth(column))
  return rows.map((cells) => cells.map(pad).join('  ').trimEnd())
}

/**
 * Asks the user to confirm a deletion by typing the name of the object in the terminal.
 * @param words such as `databases destroy`
 * @param question what is deleted, for an object with this name
 */
export function confirmDeletion(
  words: string,
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
      throw new UsageError(`baton ${words}: confirmation needs a terminal; --yes confirms for "${name}"`)
    const lines = createInterface({ input, output: stderr })
    // otherwise Ctrl-C would reject the prompt with an error
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

export const describeDeletion = (name: string): CommandOutput => ({
  json: { name, deleted: true },
  text: `deleted ${name}`,
})

/** Reads an option that is `on` or `off`; undefined if it is absent. @throws UsageError for any other value */
export const readSwitch = (option: string, value: string | undefined): boolean | undefined =>
  value === undefined ? undefined : readChoice(`baton: --${option}`, SWITCH.choices, value) === 'on'

/** Returns the output rows, one line per field. */
export const fieldRows = (fields: object): string[][] =>
  Object.entries(fields).map(([key, value]) => [
    key,
    value === null || String(value) === '' ? 'none' : String(value),
  ])

/** Returns the URL of the platform API, if one is given. */
export const findApiUrl = (
  values: Pick<ValuesOf<typeof ACCOUNT_OPTIONS>, 'api-url'>,
  { env }: CommandContext,
): string | undefined => values['api-url'] ?? (env['BATON_API_URL'] || undefined)

/** Creates a client for all organizations that the token can access. @throws UsageError if the URL or the token is missing */
export function createAccountClient(
  values: Pick<ValuesOf<typeof ACCOUNT_OPTIONS>, 'api-url' | 'token'>,
  context: CommandContext,
): PlatformClient {
  const { env } = context
  const url = findApiUrl(values, context)
  const token = values.token ?? env['BATON_API_TOKEN'] ?? env['TURSO_API_TOKEN']
  if (url === undefined)
    throw new UsageError('baton: missing URL of the platform API: pass --api-url, or set BATON_API_URL')
  if (token === undefined)
    throw new UsageError('baton: missing API token: pass --token, or set BATON_API_TOKEN')
  return withUsageError(() => createPlatformClient({ url, token }))
}

function withUsageError<T>(create: () => T): T {
  try {
    return create()
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    // the remedy of a program is not that of the command
    throw new UsageError(
      `baton: ${error.message.replace('apiTokens.create', 'baton api-tokens create NAME')}`,
    )
  }
}
