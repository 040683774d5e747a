import { createInterface } from 'node:readline/promises'
import { databaseUrl } from '@batonsql/platform'
import { type CommandContext, type CommandInput, print } from './command-context.ts'
import type { API_OPTIONS, CREATE_DATABASE_OPTIONS, DESTROY_DATABASE_OPTIONS } from './option-table.ts'
import { openPlatform } from './platform-api.ts'
import { UsageError } from './usage-error.ts'

/** Lists databases: a line each, with name, group and URL. */
export async function listDatabases({ values, context }: CommandInput<typeof API_OPTIONS>): Promise<void> {
  const platform = await openPlatform(values, context)
  const { signal } = context
  const databases = (await platform.databases.list({ signal }).toArray()).map(
    ({ name, group, hostname }) => ({
      name,
      group,
      url: databaseUrl(hostname),
    }),
  )
  if (values.json) return await print(context, `${JSON.stringify(databases)}\n`)
  const width = (key: 'name' | 'group'): number => Math.max(0, ...databases.map((each) => each[key].length))
  for (const { name, group, url } of databases)
    await print(context, `${name.padEnd(width('name'))}  ${group.padEnd(width('group'))}  ${url}\n`)
}

/** Makes a database, waits until it answers, and prints where it is. */
export async function createDatabase({
  values,
  operands,
  context,
}: CommandInput<typeof CREATE_DATABASE_OPTIONS>): Promise<void> {
  const [name] = operands as [string]
  const platform = await openPlatform(values, context)
  const { group = 'default' } = values
  const { signal } = context
  const { hostname } = await platform.databases.create({ name, group }, { wait: true, signal })
  const url = databaseUrl(hostname)
  await print(context, values.json ? `${JSON.stringify({ name, group, url })}\n` : `${url}\n`)
}

/** Deletes a database, after asking where there is a terminal. */
export async function destroyDatabase({
  values,
  operands,
  context,
}: CommandInput<typeof DESTROY_DATABASE_OPTIONS>): Promise<void> {
  const [name] = operands as [string]
  if (values.yes !== true && !(await isSure(name, context))) throw new Error(`"${name}" was not deleted`)
  const platform = await openPlatform(values, context)
  await platform.databases.delete(name, { signal: context.signal })
  await print(context, values.json ? `${JSON.stringify({ name, deleted: true })}\n` : `${name} is deleted\n`)
}

async function isSure(name: string, { input, errors, signal }: CommandContext): Promise<boolean> {
  if (input.isTTY !== true)
    throw new UsageError(`baton databases destroy: --yes says that "${name}" is to be deleted`)
  const lines = createInterface({ input, output: errors })
  try {
    const answer = await lines.question(`Delete "${name}" with everything in it? Type its name: `, { signal })
    return answer.trim() === name
  } finally {
    lines.close()
  }
}
