import { type CommandInput, print } from './command-context.ts'
import type { API_OPTIONS, TOKEN_OPTIONS } from './option-table.ts'
import { openPlatform } from './platform-api.ts'
import { UsageError } from './usage-error.ts'

/** Makes a token for a database and prints it. */
export async function createToken({
  values,
  operands,
  context,
}: CommandInput<typeof TOKEN_OPTIONS>): Promise<void> {
  const [database] = operands as [string]
  const { expiration } = values
  if (expiration !== undefined && !/^(never|default|(\d+[wdhms])+)$/.test(expiration))
    throw new UsageError(
      `baton token create: --expiration is a time such as 2w1d30m or 1h, or never, not ${expiration}`,
    )
  const platform = await openPlatform(values, context)
  const authorization = values['read-only'] === true ? 'read-only' : 'full-access'
  const token = await platform.databases.createToken(database, {
    authorization,
    signal: context.signal,
    ...(expiration !== undefined && { expiration }),
  })
  await print(context, values.json ? `${JSON.stringify({ database, authorization, token })}\n` : `${token}\n`)
}

/** Makes a token for the platform API and prints it; it is not shown again. */
export async function mintApiToken({
  values,
  operands,
  context,
}: CommandInput<typeof API_OPTIONS>): Promise<void> {
  const [name] = operands as [string]
  const platform = await openPlatform(values, context)
  const { id, token } = await platform.apiTokens.create(name, {
    signal: context.signal,
    ...(values.organization !== undefined && { organization: values.organization }),
  })
  await print(context, values.json ? `${JSON.stringify({ id, name, token })}\n` : `${token}\n`)
}

/** Lists tokens for the platform API: a line each, with name, id and day. */
export async function listApiTokens({ values, context }: CommandInput<typeof API_OPTIONS>): Promise<void> {
  const platform = await openPlatform(values, context)
  const tokens = (await platform.apiTokens.list({ signal: context.signal })).map(
    ({ id, name, createdAt }) => ({ id, name, createdAt }),
  )
  if (values.json) return await print(context, `${JSON.stringify(tokens)}\n`)
  const width = Math.max(0, ...tokens.map(({ name }) => name.length))
  for (const { id, name, createdAt } of tokens)
    await print(context, `${name.padEnd(width)}  ${id}  ${createdAt}\n`)
}

/** Takes back a token for the platform API. */
export async function revokeApiToken({
  values,
  operands,
  context,
}: CommandInput<typeof API_OPTIONS>): Promise<void> {
  const [name] = operands as [string]
  const platform = await openPlatform(values, context)
  await platform.apiTokens.revoke(name, { signal: context.signal })
  await print(context, values.json ? `${JSON.stringify({ name, revoked: true })}\n` : `${name} is revoked\n`)
}
