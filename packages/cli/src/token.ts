import type { API_OPTIONS, TOKEN_OPTIONS } from './option-table.ts'
import { apiCommand } from './platform-api.ts'
import { UsageError } from './usage-error.ts'

/** Creates a token for a database. */
export const createToken = apiCommand<typeof TOKEN_OPTIONS>(
  async (platform, { values, operands, signal }) => {
    const [database] = operands as [string]
    const { expiration } = values
    if (expiration !== undefined && !/^(never|default|(\d+[wdhms])+)$/.test(expiration))
      throw new UsageError(
        `baton token create: --expiration must be a duration such as 2w1d30m or 1h, or never, not ${expiration}`,
      )
    const authorization = values['read-only'] === true ? 'read-only' : 'full-access'
    const options = { authorization, signal, ...(expiration !== undefined && { expiration }) } as const
    const token = await platform.databases.createToken(database, options)
    return { json: { database, authorization, token }, text: token }
  },
)

/** Invalidates all tokens of a database. */
export const rotateTokens = apiCommand(async (platform, { operands, signal }) => {
  const [database] = operands as [string]
  await platform.databases.rotateTokens(database, { signal })
  return { json: { database, rotated: true }, text: `all earlier tokens for ${database} are now invalid` }
})

/** Creates a token for the platform API, which is shown only once. */
export const mintApiToken = apiCommand<typeof API_OPTIONS>(async (platform, { values, operands, signal }) => {
  const [name] = operands as [string]
  const { organization } = values
  const options = { signal, ...(organization !== undefined && { organization }) }
  const { id, token } = await platform.apiTokens.create(name, options)
  return { json: { id, name, token }, text: token }
})

/** Prints a line for each token, with its name, id and date. */
export const listApiTokens = apiCommand(async (platform, { signal }) => {
  const json = (await platform.apiTokens.list({ signal })).map(({ id, name, createdAt }) => ({
    id,
    name,
    createdAt,
  }))
  return { json, text: json.map(({ id, name, createdAt }) => [name, id, createdAt]) }
})

/** Revokes a token for the platform API. */
export const revokeApiToken = apiCommand(async (platform, { operands, signal }) => {
  const [name] = operands as [string]
  await platform.apiTokens.revoke(name, { signal })
  return { json: { name, revoked: true }, text: `revoked ${name}` }
})
