import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Client, createClient, dump, exportFile, HttpError, restore } from '@batonsql/core'
import type { LocalServer } from '@batonsql/local-server'
import { type CommandContext, type CommandInput, print } from '../command-context.ts'
import { openDatabase, readTarget } from '../database-address.ts'
import { loadServer } from '../load-server.ts'
import type { REHEARSE_OPTIONS } from '../option-table.ts'
import { Progress } from '../progress.ts'
import { readChoice } from '../read-choice.ts'
import { UsageError } from '../usage-error.ts'
import { writeNewFile } from '../write-new-file.ts'
import { compareStates } from './compare-states.ts'
import { type DatabaseState, listObjects, measureDatabase } from './measure-database.ts'
import { estimateMs, formatMarkdown, formatText, type Rehearsal, SOURCE_CHANGED } from './report.ts'
import { TrafficProxy } from './traffic-proxy.ts'

type Input = CommandInput<typeof REHEARSE_OPTIONS>

const COPY = 'copy'
const USAGE =
  'baton rehearse: pass the command after --, as in `baton rehearse URL -- npx drizzle-kit migrate`'

/** Copies a database to a temporary local server, runs a command on the copy, and reports what it changed. */
export async function runRehearse({ values, operands, rest = [], context }: Input): Promise<void> {
  const [program, ...programArgs] = rest
  if (program === undefined) throw new UsageError(USAGE)
  const { target } = readTarget(operands, 0, context)
  const format = readChoice('baton rehearse: --format', ['text', 'json', 'markdown'], values.format ?? 'text')
  const source = openDatabase(target, values, context)
  const folder = await mkdtemp(join(tmpdir(), 'baton-rehearse-'))
  let server: LocalServer | undefined
  let copy: Client | undefined
  try {
    const sourceBefore = await readSource(source)
    server = await startServer(source, folder, values['schema-only'] === true, context)
    copy = createClient({ url: server.urlOf(COPY) })
    const before = await measureDatabase(copy)
    const proxy = await TrafficProxy.start(server.urlOf(COPY))
    let exit: number | string
    try {
      const env = {
        [values['url-variable'] ?? 'DATABASE_URL']: proxy.url,
        [values['token-variable'] ?? 'DATABASE_TOKEN']: 'rehearsal',
      }
      exit = await runProgram(program, programArgs, env, format !== 'text', context)
    } finally {
      await proxy.close()
    }
    const rehearsal = toRehearsal({
      command: rest,
      exit,
      states: [before, await measureDatabase(copy)],
      proxy,
      source: [sourceBefore, await readSource(source)],
      allowed: values['allow-loss'] ?? [],
    })
    await print(context, `${formatReport(rehearsal, format)}\n`)
    if (values.keep !== true) return rejectProblems(rehearsal)
    context.stderr.write(`the copy is at ${server.urlOf(COPY)} until Ctrl-C\n`)
    if (!context.signal.aborted) await once(context.signal, 'abort')
  } finally {
    await copy?.close()
    await server?.close()
    await source.close()
    await rm(folder, { recursive: true, force: true })
  }
}

const formatReport = (rehearsal: Rehearsal, format: 'text' | 'json' | 'markdown'): string =>
  format === 'json'
    ? JSON.stringify(rehearsal)
    : format === 'markdown'
      ? formatMarkdown(rehearsal)
      : formatText(rehearsal)

/** State of the real database that a command which uses it by mistake changes. */
interface SourceState {
  readonly schemaVersion: number
  readonly roundTripMs: number
}

async function readSource(db: Client): Promise<SourceState> {
  const times: number[] = []
  for (let count = 0; count < 3; count += 1) {
    const startedAt = performance.now()
    await db.execute('select 1')
    times.push(performance.now() - startedAt)
  }
  const { rows } = await db.execute<{ schema_version: number }>(
    'select schema_version from pragma_schema_version',
  )
  return {
    schemaVersion: Number(rows[0]?.schema_version),
    // the first may have opened the connection
    roundTripMs: Math.min(...times),
  }
}

/** Starts a server with a copy of a database. */
async function startServer(
  source: Client,
  folder: string,
  isSchemaOnly: boolean,
  context: CommandContext,
): Promise<LocalServer> {
  const { startLocalServer } = await loadServer(() => import('@batonsql/local-server'))
  const file = join(folder, 'copy.db')
  const hasFile = !isSchemaOnly && (await exportTo(source, file, context))
  const server = await startLocalServer({ databases: { [COPY]: hasFile ? { fromFile: file } : {} } })
  if (hasFile) return server
  const copy = createClient({ url: server.urlOf(COPY) })
  try {
    if (isSchemaOnly) await copy.batch((await listObjects(source)).map(({ sql }) => sql))
    else await restore(copy, dump(source, { signal: context.signal }), { signal: context.signal })
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
  )
  const total = Number(rows[0]?.bytes)
  const progress = new Progress(stderr)
  async function* parts(): AsyncGenerator<Uint8Array, void, undefined> {
    let bytes = 0
    for await (const part of exportFile(source, { signal })) {
      bytes += part.length
      progress.show(`copied ${bytes.toLocaleString('en')} bytes`, bytes / total)
      yield part
    }
  }
  try {
    await writeNewFile(file, parts())
    return true
  } catch (error) {
    if (error instanceof HttpError && error.status === 404) return false
    throw error
  } finally {
    progress.end()
  }
}

/** Runs the user's program. @returns its exit code, or the name of the signal that ended it */
async function runProgram(
  program: string,
  programArgs: readonly string[],
  env: Readonly<Record<string, string>>,
  reportsToOutput: boolean,
  { env: ownEnv, signal }: CommandContext,
): Promise<number | string> {
  signal.throwIfAborted()
  const child = spawn(program, programArgs, {
    env: { ...ownEnv, ...env },
    // the output has only the report
    stdio: ['inherit', reportsToOutput ? 2 : 'inherit', 'inherit'],
  })
  const stop = (): void => void child.kill()
  signal.addEventListener('abort', stop, { once: true })
  try {
    const [code, endSignal] = (await once(child, 'exit')) as [number | null, string | null]
    signal.throwIfAborted()
    return code ?? endSignal ?? constants.signals.SIGKILL
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      throw new Error(`${program} was not found`, { cause: error })
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function toRehearsal({
  command,
  exit,
  states: [before, after],
  proxy,
  source: [sourceBefore, sourceAfter],
  allowed,
}: {
  readonly command: readonly string[]
  readonly exit: number | string
  readonly states: readonly [DatabaseState, DatabaseState]
  readonly proxy: TrafficProxy
  readonly source: readonly [SourceState, SourceState]
  readonly allowed: readonly string[]
}): Rehearsal {
  const { roundTripMs } = sourceBefore
  const comparison = compareStates(before, after)
  const isAllowed = (subject: string): boolean =>
    allowed.some((name) => subject === name || subject.startsWith(`${name}.`))
  return {
    command,
    exit,
    comparison,
    requests: proxy.requests,
    localMs: proxy.units.reduce((sum, { localMs }) => sum + localMs, 0),
    roundTripMs,
    longest: proxy.longest,
    slowest:
      proxy.units.toSorted((a, b) => estimateMs(b, roundTripMs) - estimateMs(a, roundTripMs))[0] ?? null,
    isSourceChanged: sourceBefore.schemaVersion !== sourceAfter.schemaVersion,
    losses: comparison.losses.filter(({ subject }) => !isAllowed(subject)).map(({ text }) => text),
  }
}

/** @throws Error if the command must not be run on the real database */
function rejectProblems({ exit, losses, comparison, isSourceChanged, requests }: Rehearsal): void {
  const problems = [
    ...(exit === 0 ? [] : ['the command failed']),
    ...(losses.length > 0
      ? [`it loses data (--allow-loss TABLE[.COLUMN] accepts this): ${losses.join('; ')}`]
      : []),
    ...(comparison.damage.length > 0 ? [`it damages the database: ${comparison.damage.join('; ')}`] : []),
    ...(isSourceChanged ? [SOURCE_CHANGED] : []),
    ...(requests === 0 && exit === 0
      ? ['it sent nothing to the copy: does it use another variable for its URL?']
      : []),
  ]
  if (problems.length > 0) throw new Error(problems.join('\n'))
}
