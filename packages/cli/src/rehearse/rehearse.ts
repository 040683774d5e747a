import { once } from 'node:events'
import { join } from 'node:path'
import { type Client, createClient, dump, exportFile, HttpError, restore } from '@batonsql/core'
import type { LocalServer } from '@batonsql/local-server'
import { TemporaryDirectory } from '@batonsql/server-common/temporary-directory'
import { type CommandContext, type CommandInput, print } from '../command-context.ts'
import { openDatabase, readTarget } from '../database-address.ts'
import { loadServer } from '../load-server.ts'
import type { REHEARSE_OPTIONS, ValuesOf } from '../option-table.ts'
import { Progress } from '../progress.ts'
import { type ProgramOptions, type ProgramResult, runProgram } from '../run-program.ts'
import { tap } from '../tap.ts'
import { UsageError } from '../usage-error.ts'
import { writeNewFile } from '../write-atomically.ts'
import { compareStates, type Loss } from './compare-states.ts'
import { type DatabaseState, listObjects, measureDatabase } from './measure-database.ts'
import { estimateMs, formatMarkdown, formatText, type Rehearsal, SOURCE_CHANGED } from './report.ts'
import { TrafficProxy, type Unit } from './traffic-proxy.ts'

type Input = CommandInput<typeof REHEARSE_OPTIONS>

const COPY = 'copy'
/** Number of empty requests of which the fastest is the round trip. */
const ROUND_TRIPS = 3
const USAGE =
  'baton rehearse: pass the command after --, as in `baton rehearse URL -- npx drizzle-kit migrate`'

/** Copies a database to a temporary local server, runs a command on the copy, and reports what it changed. */
export async function runRehearse({ values, operands, rest = [], context }: Input): Promise<void> {
  if (!rest[0]) throw new UsageError(USAGE)
  const { target } = readTarget(operands, 0, context)
  if (values.json === true && values.markdown === true)
    throw new UsageError('baton rehearse: use only one of --json and --markdown')
  const isText = values.json !== true && values.markdown !== true
  const source = openDatabase(target, values, context)
  try {
    await rehearse(
      source,
      { command: rest, values, output: isText ? 'inherited' : 'to stderr' },
      context,
      async (rehearsal, url) => {
        await print(context, `${formatReport(rehearsal, values)}\n`)
        if (values.keep === true) {
          context.stderr.write(`the copy is at ${url} until Ctrl-C\n`)
          if (!context.signal.aborted) await once(context.signal, 'abort')
        }
        rejectProblems(rehearsal)
      },
    )
  } finally {
    await source.close()
  }
}

/** What is rehearsed, and how. */
export interface RehearsalOptions {
  readonly command: readonly string[]
  readonly output: ProgramOptions['output']
  readonly values: Partial<
    Pick<ValuesOf<typeof REHEARSE_OPTIONS>, 'allow-loss' | 'schema-only' | 'url-variable' | 'token-variable'>
  >
}

/**
 * Rehearses a command on a temporary copy of a database.
 * @param report called with the outcome and the URL of the copy, before the copy is removed
 */
export async function rehearse(
  source: Client,
  { command, values, output }: RehearsalOptions,
  context: CommandContext,
  report: (rehearsal: Rehearsal, url: string) => Promise<void>,
): Promise<void> {
  const { signal } = context
  let server: LocalServer | undefined
  let copy: Client | undefined
  try {
    const sourceBefore = await readSource(source, signal)
    server = await startServer(source, values['schema-only'] === true, context)
    copy = createClient({ url: server.urlOf(COPY) })
    const before = await measureDatabase(copy, signal)
    const proxy = await TrafficProxy.start(server.urlOf(COPY))
    let result: ProgramResult
    try {
      const env = databaseVariables(values, proxy.url, 'rehearsal')
      result = await runProgram(command, { env, output }, context)
    } finally {
      await proxy.close()
    }
    const comparison = compareStates(before, await measureDatabase(copy, signal))
    const { requests, units, longest } = proxy
    const { roundTripMs } = sourceBefore
    const estimate = (unit: Unit): number => estimateMs(unit, roundTripMs)
    const rehearsal: Rehearsal = {
      command,
      ...result,
      comparison,
      requests,
      localMs: units.reduce((sum, { localMs }) => sum + localMs, 0),
      roundTripMs,
      longest,
      slowest: units.toSorted((a, b) => estimate(b) - estimate(a))[0] ?? null,
      ...compareSource(sourceBefore, await readSource(source, signal).catch(getReason)),
      losses: rejectedLosses(comparison.losses, before, values['allow-loss'] ?? []),
    }
    signal.throwIfAborted()
    await report(rehearsal, server.urlOf(COPY))
  } finally {
    await copy?.close()
    await server?.close()
  }
}

/** Returns the variables from which a command takes the address of its database. */
export const databaseVariables = (
  values: Pick<ValuesOf<typeof REHEARSE_OPTIONS>, 'url-variable' | 'token-variable'>,
  url: string,
  token: string,
): Readonly<Record<string, string>> => ({
  [values['url-variable'] ?? 'DATABASE_URL']: url,
  [values['token-variable'] ?? 'DATABASE_TOKEN']: token,
})

function formatReport(rehearsal: Rehearsal, { json, markdown }: Input['values']): string {
  if (json === true) return JSON.stringify(rehearsal)
  return markdown === true ? formatMarkdown(rehearsal) : formatText(rehearsal)
}

/** The part of the real database's state that shows whether the command has used it by mistake. */
interface SourceState {
  readonly schemaVersion: number
  /** Changes with each write; null on servers that do not send it. */
  readonly replicationIndex: string | null
  readonly roundTripMs: number
}

async function readSource(db: Client, signal: AbortSignal): Promise<SourceState> {
  const times: number[] = []
  for (let count = 0; count < ROUND_TRIPS; count += 1) {
    const startedAt = performance.now()
    await db.execute('select 1', [], { signal })
    times.push(performance.now() - startedAt)
  }
  const { rows } = await db.execute<{ schema_version: number }>(
    'select schema_version from pragma_schema_version',
    [],
    { signal },
  )
  return {
    schemaVersion: Number(rows[0]?.schema_version),
    replicationIndex: db.replicationIndex,
    // the first may have opened the connection
    roundTripMs: Math.min(...times),
  }
}

async function startServer(
  source: Client,
  isSchemaOnly: boolean,
  context: CommandContext,
): Promise<LocalServer> {
  const { startLocalServer } = await loadServer(() => import('@batonsql/local-server'))
  const folder = await TemporaryDirectory.create('baton-rehearse-')
  const file = join(folder.path, 'copy.db')
  let hasFile = false
  let server: LocalServer
  try {
    hasFile = !isSchemaOnly && (await exportTo(source, file, context))
    server = await startLocalServer({ databases: { [COPY]: hasFile ? { fromFile: file } : {} } })
  } finally {
    // the server has its own copy; a directory that cannot be removed now is removed when the process exits
    await folder.remove().catch(() => {})
  }
  if (hasFile) return server
  const copy = createClient({ url: server.urlOf(COPY) })
  const options = { signal: context.signal }
  try {
    if (isSchemaOnly) {
      const objects = await listObjects(source, options)
      await copy.batch(
        objects.map(({ sql }) => sql),
        options,
      )
    } else await restore(copy, dump(source, options), options)
    return server
  } catch (error) {
    await server.close()
    throw error
  } finally {
    await copy.close()
  }
}

/** Writes a database to a file. @returns false if its server cannot export files */
async function exportTo(source: Client, file: string, { signal, stderr }: CommandContext): Promise<boolean> {
  const { rows } = await source.execute<{ bytes: number }>(
    'select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()',
    [],
    { signal },
  )
  const total = Number(rows[0]?.bytes)
  const progress = new Progress(stderr)
  let bytes = 0
  const parts = tap(exportFile(source, { signal }), (part) => {
    bytes += part.length
    progress.show(`copied ${bytes.toLocaleString('en')} bytes`, bytes / total)
  })
  try {
    await writeNewFile(file, parts)
    return true
  } catch (error) {
    // 404: its server cannot export files; 400: neither can a local server in front of a libsql-server that it has not started
    if (error instanceof HttpError && [400, 404].includes(error.status)) return false
    throw error
  } finally {
    progress.end()
  }
}

/** Returns the losses that `--allow-loss` does not accept. A name that matches a table is never a column. */
function rejectedLosses(
  losses: readonly Loss[],
  before: DatabaseState,
  allowed: readonly string[],
): string[] {
  const isAllowed = ({ table, column }: Loss): boolean =>
    allowed.some((name) => name === table || (name === `${table}.${column}` && !before.tables.has(name)))
  return losses.filter((loss) => !isAllowed(loss)).map(({ text }) => text)
}

const getReason = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** @param after the message of the error if the real database could not be read */
function compareSource(
  before: SourceState,
  after: SourceState | string,
): Pick<Rehearsal, 'isSourceChanged' | 'isSourceWritten' | 'sourceError'> {
  if (typeof after === 'string')
    return {
      isSourceChanged: false,
      isSourceWritten: false,
      sourceError: `the real database could not be read afterwards, so it is unknown whether it was changed: ${after}`,
    }
  return {
    isSourceChanged: before.schemaVersion !== after.schemaVersion,
    isSourceWritten: before.replicationIndex !== after.replicationIndex,
    sourceError: null,
  }
}

/** Rejects a rehearsal that has found problems. @throws Error if the command must not be run on the real database */
function rejectProblems(rehearsal: Rehearsal): void {
  const problems = listProblems(rehearsal)
  if (problems.length > 0) throw new Error(problems.join('\n'))
}

/** Returns why the command must not be run on the real database. */
export function listProblems({
  exit,
  losses,
  comparison,
  isSourceChanged,
  sourceError,
  requests,
}: Rehearsal): string[] {
  return [
    ...(exit === 0 ? [] : ['the command failed']),
    ...(losses.length > 0
      ? [`it loses data (--allow-loss TABLE[.COLUMN] accepts this): ${losses.join('; ')}`]
      : []),
    ...(comparison.damage.length > 0 ? [`it damages the database: ${comparison.damage.join('; ')}`] : []),
    ...(isSourceChanged ? [SOURCE_CHANGED] : []),
    ...(sourceError === null ? [] : [sourceError]),
    ...(requests === 0 && exit === 0
      ? ['it sent nothing to the copy: does it use another variable for its URL?']
      : []),
  ]
}
