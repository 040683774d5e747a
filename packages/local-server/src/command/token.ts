import { type CommandInput, print } from './command-context.ts'
import type { TOKEN_OPTIONS } from './option-table.ts'
import { openPlatform } from './platform-api.ts'

/** Makes a token for a database and prints it. */
export async function createToken({
  values,
  operands,
  context,
}: CommandInput<typeof TOKEN_OPTIONS>): Promise<void> {
  const [database] = operands as [string]
  const platform = await openPlatform(values, context)
  const { expiration } = values
  const authorization = values['read-only'] === true ? 'read-only' : 'full-access'
  const token = await platform.databases.createToken(database, {
    authorization,
    signal: context.signal,
    ...(expiration !== undefined && { expiration }),
  })
  await print(context, values.json ? `${JSON.stringify({ database, authorization, token })}\n` : `${token}\n`)
}
