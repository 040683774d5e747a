import { createPlatformClient, type PlatformClient } from '@batonsql/platform'
import type { CommandContext } from './command-context.ts'
import type { API_OPTIONS, ValuesOf } from './option-table.ts'
import { UsageError } from './usage-error.ts'

/**
 * A client of the platform API that the command line, or the environment, names.
 * @throws UsageError when it names none, or an organization has to be chosen
 */
export async function openPlatform(
  values: ValuesOf<typeof API_OPTIONS>,
  { env, signal }: CommandContext,
): Promise<PlatformClient> {
  const url = values['api-url'] ?? env['BATON_API_URL']
  const token = values.token ?? env['BATON_API_TOKEN'] ?? env['TURSO_API_TOKEN']
  if (url === undefined)
    throw new UsageError('baton: say where the platform API is: --api-url, or BATON_API_URL')
  if (token === undefined) throw new UsageError('baton: an API token is missing: --token, or BATON_API_TOKEN')
  const platform = asUsage(() => createPlatformClient({ url, token }))
  if (values.organization !== undefined) return platform.forOrganization(values.organization)
  const slugs = (await platform.organizations.list({ signal })).map(({ slug }) => slug)
  const [only, ...others] = slugs
  if (only === undefined || others.length > 0)
    throw new UsageError(`baton: choose an organization with --organization: ${slugs.join(', ')}`)
  return platform.forOrganization(only)
}

function asUsage<T>(make: () => T): T {
  try {
    return make()
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(`baton: ${error.message}`)
    throw error
  }
}
