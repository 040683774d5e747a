import { createPlatformClient, type PlatformClient } from '@batonsql/platform'
import type { CommandContext, CommandInput } from './command-context.ts'
import { type CommandOutput, printOutput } from './command-output.ts'
import type { ACCOUNT_OPTIONS, API_OPTIONS, OptionTable, ValuesOf } from './option-table.ts'
import { UsageError } from './usage-error.ts'

type Action<Options extends OptionTable> = (
  platform: PlatformClient,
  input: CommandInput<Options>,
) => Promise<CommandOutput>

/**
 * Creates a command that uses the platform API on behalf of the token's user.
 * @param confirm asks for confirmation first
 */
export function accountCommand<Options extends typeof ACCOUNT_OPTIONS>(
  action: Action<Options>,
  confirm: (input: CommandInput<Options>) => Promise<void> = async () => {},
): (input: CommandInput<Options>) => Promise<void> {
  return async (input) => {
    const { context } = input
    // TypeScript cannot infer that the values of a larger table include those of a smaller one
    const values = input.values as ValuesOf<typeof ACCOUNT_OPTIONS>
    const platform = createAccountClient(values, context)
    await confirm(input)
    await printOutput(await action(platform, input), values.json, context)
  }
}

/** Creates a command that uses the platform API on behalf of an organization. */
export function organizationCommand<Options extends typeof API_OPTIONS>(
  action: Action<Options>,
  confirm?: (input: CommandInput<Options>) => Promise<void>,
): (input: CommandInput<Options>) => Promise<void> {
  return accountCommand<Options>(async (platform, input) => {
    const { organization } = input.values as ValuesOf<typeof API_OPTIONS>
    const slug = organization ?? (await getOnlyOrganization(platform, input.context.signal))
    return await action(platform.forOrganization(slug), input)
  }, confirm)
}

/** Returns the slug of the only organization that the token can access. @throws UsageError if there are several, or none */
export async function getOnlyOrganization(platform: PlatformClient, signal: AbortSignal): Promise<string> {
  const slugs = (await platform.organizations.list({ signal })).map(({ slug }) => slug)
  const [slug, ...others] = slugs
  if (slug === undefined) throw new UsageError('baton: the token has access to no organization')
  if (others.length > 0)
    throw new UsageError(`baton: choose an organization with --organization: ${slugs.join(', ')}`)
  return slug
}

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
  const token = values.token ?? (env['BATON_API_TOKEN'] || env['TURSO_API_TOKEN'] || undefined)
  if (url === undefined)
    throw new UsageError('baton: missing URL of the platform API: pass --api-url, or set BATON_API_URL')
  if (token === undefined)
    throw new UsageError('baton: missing API token: pass --token, or set BATON_API_TOKEN')
  try {
    return createPlatformClient({ url, token })
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    // the message names a method of the client, but the user needs the name of the command
    throw new UsageError(
      `baton: ${error.message.replace('apiTokens.create', 'baton api-tokens create NAME')}`,
    )
  }
}
