import { API_TOKEN_OPTIONS } from './option-table.ts'
import { accountCommand, getOnlyOrganization } from './platform-commands.ts'
import { readChoice } from './read-choice.ts'
import { UsageError } from './usage-error.ts'

/** Creates a token for the platform API, which is shown only once. */
export const createApiToken = accountCommand<typeof API_TOKEN_OPTIONS>(
  async (platform, { values, operands, context: { signal } }) => {
    const [name] = operands as [string]
    const { organization, group } = values
    const scopes = values.scope?.map((scope) =>
      readChoice('baton api-tokens create: --scope', API_TOKEN_OPTIONS.scope.choices, scope),
    )
    if (group !== undefined && scopes === undefined)
      throw new UsageError('baton api-tokens create: --group needs --scope, such as --scope read-only')
    const slug =
      organization ?? (group === undefined ? undefined : await getOnlyOrganization(platform, signal))
    const { id, token } = await platform.apiTokens.create(
      { name, organization: slug, group, scopes },
      { signal },
    )
    return { json: { id, name, token }, text: token }
  },
)

export const listApiTokens = accountCommand(async (platform, { context: { signal } }) => {
  const json = (await platform.apiTokens.list({ signal })).map(
    ({ id, name, createdAt, organization = null, group = null, scopes = null }) => ({
      id,
      name,
      organization,
      group,
      scopes,
      createdAt,
    }),
  )
  return {
    json,
    text: [
      ['NAME', 'ID', 'CREATED', 'LIMITED TO', 'SCOPES'],
      ...json.map(({ id, name, organization, group, scopes, createdAt }) => [
        name,
        id,
        createdAt,
        [organization ?? 'all organizations', ...(group === null ? [] : [group])].join('/'),
        (scopes ?? []).join(' '),
      ]),
    ],
  }
})

export const revokeApiToken = accountCommand(async (platform, { operands, context: { signal } }) => {
  const [name] = operands as [string]
  await platform.apiTokens.revoke(name, { signal })
  return { json: { name, revoked: true }, text: `revoked ${name}` }
})
