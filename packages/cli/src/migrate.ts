import { appendFile, readFile, rm, writeFile } from 'node:fs/promises'
import { PassThrough } from 'node:stream'
import { createClient } from '@batonsql/core'
import { type Database, databaseUrl, type PlatformClient, PlatformError } from '@batonsql/platform'
import { type CommandContext, type CommandInput, print } from './command-context.ts'
import type { MIGRATE_OPTIONS } from './option-table.ts'
import { createAccountClient, getOnlyOrganization } from './platform-commands.ts'
import { Progress } from './progress.ts'
import { databaseVariables, listProblems, rehearse } from './rehearse/rehearse.ts'
import { type ProgramResult, runProgram } from './run-program.ts'
import { UsageError } from './usage-error.ts'

type Input = CommandInput<typeof MIGRATE_OPTIONS>

/** Lifetime of the token that the command gets for a database. */
const TOKEN_LIFETIME = '1h'

/** How the command ended for a database: a line of the report. */
interface MigrationResult {
  readonly database: string
  readonly id: string
  readonly command: readonly string[]
  readonly succeeded: boolean
  /** The exit code, the name of a signal, or `no token` if the command was not run. */
  readonly exit: number | string
  readonly ms: number
  /** The end of what the command wrote. */
  readonly output: string
}

/** Runs a command for every database of a group, several at a time, after rehearsing it on copies if requested. */
export async function runMigrate({ values, operands, rest: command = [], context }: Input): Promise<void> {
  const [group] = operands as [string]
  if (!command[0])
    throw new UsageError(
      'baton migrate: pass the command after --, as in `baton migrate GROUP -- npx drizzle-kit migrate`',
    )
  const concurrency = Number(values.concurrency ?? 4)
  if (!Number.isInteger(concurrency) || concurrency < 1)
    throw new UsageError(`baton migrate: --concurrency ${values.concurrency} is not a positive whole number`)
  const { signal } = context
  const account = createAccountClient(values, context)
  const platform = account.forOrganization(
    values.organization ?? (await getOnlyOrganization(account, signal)),
  )
  const databases = await platform.databases.list({ group, signal }).toArray()
  // a misspelled name must not look like a group that is up to date
  if (databases.length === 0) throw new Error(`the group ${group} has no databases`)
  const finishedIds = await openReport(values, command)
  const findSchemaDatabase = ({ schema }: Database): Database | undefined =>
    databases.find(({ name, isSchema }) => isSchema === true && name === schema)
  // a child has succeeded if its schema database has
  const pending = databases.filter(
    (database) => !finishedIds.has((findSchemaDatabase(database) ?? database).dbId),
  )
  // the server applies changes of a schema database to its children, and rejects direct changes to them
  const children = pending.filter((database) => findSchemaDatabase(database) !== undefined)
  const run = { platform, command, values, concurrency, context }
  if (values.rehearse === true)
    await rehearseAll(pending, run).catch(async (error: unknown) => {
      // it is empty, and would make the next run need --resume
      if (values.report !== undefined && values.resume !== true) await rm(values.report, { force: true })
      throw error
    })
  const others = pending.filter((database) => !children.includes(database))
  const results = await forEachDatabase(others, run, async (database) => {
    const result = await migrateDatabase(database, run)
    if (values.report !== undefined) await appendFile(values.report, `${JSON.stringify(result)}\n`)
    await print(context, values.json === true ? `${JSON.stringify(result)}\n` : formatResult(result))
    return result
  })
  const failed = results.filter(({ succeeded }) => !succeeded)
  const skipped = databases.length - pending.length
  const notes = [
    `${results.length - failed.length} succeeded`,
    `${failed.length} failed`,
    `${skipped} had succeeded before`,
    ...(children.length > 0 ? [`${children.length} change with their schema database`] : []),
  ]
  context.stderr.write(`${notes.join(', ')}\n`)
  if (failed.length > 0)
    throw new Error(
      `the command failed for ${failed.length} of ${databases.length} databases: ${failed.map(({ database }) => database).join(', ')}`,
    )
}

interface Run extends Pick<Input, 'values' | 'context'> {
  readonly platform: PlatformClient
  readonly command: readonly string[]
  readonly concurrency: number
}

/** Creates the report, or continues it. @returns ids of the databases for which the command has succeeded before */
async function openReport(
  { report, resume }: Input['values'],
  command: readonly string[],
): Promise<Set<string>> {
  if (resume === true && report === undefined)
    throw new UsageError('baton migrate: --resume needs the --report of the earlier run')
  if (report === undefined) return new Set()
  if (resume !== true) {
    await writeFile(report, '', { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
      throw new UsageError(`baton migrate: ${report} already exists; --resume continues it`)
    })
    return new Set()
  }
  const lines = (await readFile(report, 'utf8')).split('\n')
  // the last line may have been cut off by a crash
  if (lines.at(-1) !== '') await appendFile(report, '\n')
  const results = lines.flatMap((line): MigrationResult[] => {
    try {
      // a line that is not an object is that of another command
      return [Object(JSON.parse(line)) as MigrationResult]
    } catch {
      return []
    }
  })
  if (results.some((result) => JSON.stringify(result.command) !== JSON.stringify(command)))
    throw new UsageError(`baton migrate: ${report} is the report of another command`)
  return new Set(results.filter(({ succeeded }) => succeeded).map(({ id }) => id))
}

/** Rehearses the command on a copy of each database. @throws Error if it must not be run on one of them */
async function rehearseAll(databases: readonly Database[], run: Run): Promise<void> {
  const { command, values, context } = run
  // several copies at a time would overwrite each other's progress
  const quietContext = { ...context, stderr: new PassThrough().resume() }
  const problems = await forEachDatabase(databases, run, async (database) => {
    const source = createClient({
      url: databaseUrl(database.hostname),
      authToken: await createToken(database, run, 'read-only'),
    })
    const found: string[] = []
    const options = { command, values, output: 'captured' } as const
    try {
      await rehearse(source, options, quietContext, async (rehearsal) => {
        found.push(...listProblems(rehearsal))
        if (rehearsal.exit !== 0) found.push(rehearsal.output.trim())
      })
    } catch (error) {
      context.signal.throwIfAborted()
      throw new Error(`${database.name}: ${(error as Error).message}`, { cause: error })
    } finally {
      await source.close()
    }
    return found.map((problem) => `${database.name}: ${problem}`)
  })
  const bad = problems.filter((list) => list.length > 0)
  if (bad.length > 0)
    throw new Error(
      `nothing was changed, because the rehearsal found problems in ${bad.length} of ${databases.length} databases:\n${bad.flat().join('\n')}`,
    )
  context.stderr.write(`rehearsed on copies of ${databases.length} databases\n`)
}

async function migrateDatabase(database: Database, run: Run): Promise<MigrationResult> {
  const { name, dbId: id } = database
  const startedAt = performance.now()
  const { exit, output } = await runCommand(database, run)
  const ms = Math.round(performance.now() - startedAt)
  return { database: name, id, command: run.command, succeeded: exit === 0, exit, ms, output }
}

async function runCommand(
  database: Database,
  run: Run,
): Promise<ProgramResult | { readonly exit: 'no token'; readonly output: string }> {
  const { command, values, context } = run
  let token: string
  try {
    token = await createToken(database, run, 'full-access')
  } catch (error) {
    context.signal.throwIfAborted()
    // such as a database that was deleted meanwhile
    if (error instanceof PlatformError) return { exit: 'no token', output: error.message }
    throw error
  }
  const env = databaseVariables(values, databaseUrl(database.hostname), token)
  return await runProgram(command, { env, output: 'captured' }, context)
}

const createToken = async (
  { name }: Database,
  { platform, context: { signal } }: Run,
  authorization: 'read-only' | 'full-access',
): Promise<string> =>
  await platform.databases.createToken(name, { authorization, expiration: TOKEN_LIFETIME, signal })

const formatResult = ({ database, succeeded, exit, ms, output }: MigrationResult): string =>
  succeeded
    ? `${database}: succeeded in ${ms} ms\n`
    : `${database}: FAILED (${typeof exit === 'number' ? `exit code ${exit}` : exit})\n${output.trim().replaceAll(/^/gm, '  ')}\n`

/** Calls `work` for each database, several at a time. After an error, begins no more calls, and rejects when the others have ended. */
async function forEachDatabase<T>(
  databases: readonly Database[],
  { concurrency, context }: { readonly concurrency: number; readonly context: CommandContext },
  work: (database: Database) => Promise<T>,
): Promise<T[]> {
  const queue = databases.values()
  const results: T[] = []
  const errors: unknown[] = []
  const progress = new Progress(context.stderr)
  const worker = async (): Promise<void> => {
    for (const database of queue) {
      if (errors.length > 0) return
      await work(database).then(
        (result) => results.push(result),
        (error: unknown) => errors.push(error),
      )
      progress.show(`${results.length} of ${databases.length} databases`, results.length / databases.length)
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, databases.length) }, worker))
  progress.end()
  if (errors.length > 0) throw errors[0]
  return results
}
