import type { DATABASE_TOKEN_OPTIONS } from './option-table.ts'
import { organizationCommand } from './platform-commands.ts'
import { UsageError } from './usage-error.ts'

export const createDatabaseToken = organizationCommand<typeof DATABASE_TOKEN_OPTIONS>(
  async (platform, { values, operands, context: { signal } }) => {
    const [database] = operands as [string]
    const { expiration } = values
    if (expiration !== undefined && !/^(never|(\d+[wdhms])+)$/.test(expiration))
      throw new UsageError(
        `baton database-tokens create: --expiration must be a duration such as 2w1d30m or 1h, or never, not ${expiration}`,
      )
    const authorization = values['read-only'] === true ? 'read-only' : 'full-access'
    const options = { authorization, signal, ...(expiration !== undefined && { expiration }) } as const
    const token = await platform.databases.createToken(database, options)
    return { json: { database, authorization, token }, text: token }
  },
)

export const rotateDatabaseTokens = organizationCommand(
  async (platform, { operands, context: { signal } }) => {
    const [database] = operands as [string]
    await platform.databases.rotateTokens(database, { signal })
    return { json: { database, rotated: true }, text: `all earlier tokens for ${database} are now invalid` }
  },
)
