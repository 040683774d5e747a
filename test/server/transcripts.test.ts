import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type DatabaseOptions,
  type LocalServer,
  type NewDatabaseOptions,
  startLocalServer,
} from '@batonsql/local-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ACCEPTED_DIFFERENCES, NOT_REPLAYED } from './accepted-differences.ts'
import { createGroupKey } from './group-key.ts'
import { type Mismatch, type ReplayResult, replay, replayWithRetries } from './replay.ts'
import { TokenForge } from './token-forge.ts'
import { readTranscripts, type Transcript, waitingTimeMs } from './transcript.ts'

/** Maximum number of concurrent cases that mostly wait. They run in addition to the other cases. */
const SLOW_WORKER_COUNT = 12
const MIN_SLOW_MS = 1_000
/** The name that the recorded server uses for itself. */
const RECORDED_VERSION = 'sqld 0.24.32 (40c272de 2025-02-14)'
/** The case that opens as many streams as a server allows. */
const STREAM_LIMIT_CASE = 93
/** The case that requests the server's name. */
const VERSION_CASE = 109

const replayableTranscripts = readTranscripts().filter((transcript) => !(transcript.id in NOT_REPLAYED))
const needsOwnServer = ({ id, server: kind }: Transcript): boolean =>
  kind !== 'plain' || id === STREAM_LIMIT_CASE
const onOwnServer = replayableTranscripts.filter(needsOwnServer)
const onSharedServer = replayableTranscripts.filter((transcript) => !needsOwnServer(transcript))
const slowTranscripts = onSharedServer.filter((transcript) => waitingTimeMs(transcript) >= MIN_SLOW_MS)
const outcomes = new Map<number, Promise<readonly Mismatch[]>>()

let server: LocalServer

beforeAll(async () => {
  server = await startLocalServer({ dialect: 'sqld' })
  const queue = [...slowTranscripts]
  const resolvers = new Map<number, (outcome: Promise<readonly Mismatch[]>) => void>()
  for (const { id } of slowTranscripts) outcomes.set(id, new Promise((resolve) => resolvers.set(id, resolve)))
  const worker = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const outcome = replayCase(next, replayOnSharedServer)
      resolvers.get(next.id)?.(outcome)
      await outcome.catch(() => {}) // the test that awaits it fails
    }
  }
  for (let count = 0; count < SLOW_WORKER_COUNT; count += 1) void worker()
})
afterAll(() => server.close())

/** Repeats a delayed replay, unless the case is known to differ, which would repeat it each time. */
async function replayCase(
  transcript: Transcript,
  replayOnce: (transcript: Transcript) => Promise<ReplayResult>,
): Promise<readonly Mismatch[]> {
  if (transcript.id in ACCEPTED_DIFFERENCES) return (await replayOnce(transcript)).mismatches
  return await replayWithRetries(() => replayOnce(transcript))
}

/** Replays a case on a separate database. */
async function replayOnSharedServer(transcript: Transcript) {
  const name = `case-${transcript.id}`
  await server.createDatabase(name)
  try {
    return await replay(transcript, {
      url: server.url,
      prefix: `/${name}`,
      names: transcript.id === VERSION_CASE ? new Map() : createVersionNames(server),
      configure: (_, configuration) => server.updateDatabase(name, toDatabaseOptions(configuration)),
      token: () => 'none',
    })
  } finally {
    await server.deleteDatabase(name)
  }
}

/** Replays a case on a separate server, with the recorded databases under their host names. */
async function replayOnOwnServer(transcript: Transcript) {
  const dataDirectory = await mkdtemp(join(tmpdir(), 'baton-test-'))
  const domains = {
    'foo.db.test': 'foo',
    'foo.example.test': 'foo',
    'foo.x': 'foo',
    'bar.x': 'bar',
    'FOO.x': 'FOO',
    'nope.db.test': 'nope',
    'parent.db.test': 'parent',
    'kid.db.test': 'kid',
    'kid2.db.test': 'kid2',
  }
  const key = await createGroupKey(dataDirectory)
  const ownServer = await startLocalServer({
    dataDirectory,
    dialect: 'sqld',
    auth: transcript.server === 'auth',
    domains,
  })
  try {
    const names = createVersionNames(ownServer)
    for (const [name, settings] of Object.entries(transcript.namespaces ?? {})) {
      await ownServer.createDatabase(name, toNewDatabaseOptions(settings))
      names.set(ownServer.databaseId(name), name)
    }
    const tokens = transcript.server === 'auth' ? await TokenForge.open(ownServer, key) : null
    return await replay(transcript, {
      url: ownServer.url,
      prefix: '',
      names,
      configure: (name, configuration) => ownServer.updateDatabase(name, toDatabaseOptions(configuration)),
      token: (claims) => tokens?.forge(claims) ?? 'none',
    })
  } finally {
    await ownServer.close()
    await rm(dataDirectory, { recursive: true, force: true })
  }
}

/** Returns a map that replaces the server's own name with the recorded one. */
function createVersionNames({ version }: LocalServer): Map<string, string> {
  return new Map([[version, RECORDED_VERSION]])
}

/** Converts settings from the format of the recorded server, which resets any setting that is omitted. */
function toDatabaseOptions(configuration: Readonly<Record<string, unknown>>): DatabaseOptions {
  const size = /^(\d+)KB$/.exec(String(configuration['max_db_size']))?.[1]
  return {
    blockReads: configuration['block_reads'] === true,
    blockWrites: configuration['block_writes'] === true,
    blockReason: (configuration['block_reason'] as string | undefined) ?? null,
    allowAttach: configuration['allow_attach'] === true,
    ...(size !== undefined && { sizeLimit: String(Number(size) * 1_000) }),
  }
}

function toNewDatabaseOptions(settings: Readonly<Record<string, unknown>>): NewDatabaseOptions {
  const parent = settings['shared_schema_name'] as string | undefined
  return {
    ...toDatabaseOptions(settings),
    isSchema: settings['shared_schema'] === true,
    ...(parent !== undefined && { schema: parent }),
  }
}

describe('responds like the real server', () => {
  test.concurrent.each(
    onSharedServer.map((transcript) => [transcript.id, transcript.title, transcript] as const),
  )('%d %s', async (id, _, transcript) =>
    expectAccepted(id, await (outcomes.get(id) ?? replayCase(transcript, replayOnSharedServer))),
  )

  test.concurrent.each(
    onOwnServer.map((transcript) => [transcript.id, transcript.title, transcript] as const),
  )('%d %s', async (id, _, transcript) => expectAccepted(id, await replayCase(transcript, replayOnOwnServer)))
})

function expectAccepted(id: number, mismatches: readonly Mismatch[]): void {
  if (!(id in ACCEPTED_DIFFERENCES)) expect(mismatches).toEqual([])
  else if (mismatches.length === 0)
    throw new Error(`case ${id} gets the recorded response: remove it from ACCEPTED_DIFFERENCES`)
}

test('the tables contain only recorded cases', () => {
  const ids = new Set(readTranscripts().map(({ id }) => String(id)))
  expect(Object.keys({ ...NOT_REPLAYED, ...ACCEPTED_DIFFERENCES }).filter((id) => !ids.has(id))).toEqual([])
})
