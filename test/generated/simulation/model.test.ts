/*
 * Sends generated requests that the model supports to the model and to the real libsql-server, and compares the
 * responses. MODEL_SEQUENCES sets the number of sequences, TEST_SEED repeats a run.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hasSqld } from '../../support/has-sqld.ts'
import { SEED, seeded } from '../../support/random.ts'
import { words } from '../../support/words.ts'
import { type NamedSubject, type SubjectSource, startSqldSource } from '../differential/servers.ts'
import { type ModelExchange, RequestGenerator } from './model-requests.ts'
import { ModelServer } from './model-server.ts'
import { World } from './world.ts'

const SEQUENCE_COUNT = Number(process.env['MODEL_SEQUENCES'] ?? 60)
const EXCHANGE_COUNT = 25
const CREATE_TABLES = [
  'create table t (a integer not null)',
  'create table parent (a integer primary key)',
  'create table child (a integer, p integer references parent deferrable initially deferred)',
]

interface Reply {
  readonly status: number
  readonly body: unknown
}

let source: SubjectSource | undefined
beforeAll(async () => {
  if (hasSqld) source = await startSqldSource()
})
afterAll(() => source?.[Symbol.asyncDispose]())

type Send = (route: string, body: string) => Promise<{ status: number; text: string }>

/** Two clients of a server, with their batons. */
class Clients {
  readonly #send: Send
  readonly #openBatons: string[] = []
  readonly #batons: [string[], string[]] = [[], []]

  constructor(send: Send) {
    this.#send = send
  }

  /** Closes the streams that are still open, because the real server allows at most 128. */
  async closeStreams(): Promise<void> {
    const batons = this.#openBatons.splice(0)
    const body = (baton: string): string => JSON.stringify({ baton, requests: [{ type: 'close' }] })
    await Promise.all(batons.map((baton) => this.#send('/v3/pipeline', body(baton))))
  }

  getNewestBaton(client: 0 | 1): string | undefined {
    return this.#batons[client].at(-1)
  }

  async sendRequest({ client, route, baton, requests }: ModelExchange): Promise<Reply> {
    const batons = this.#batons[client]
    const sentBaton = {
      none: null,
      newest: batons.at(-1) ?? null,
      older: batons.at(-2) ?? null,
      garbage: 'AAAA',
    }[baton]
    const [first] = requests as [{ batch: unknown }]
    const body =
      route === '/v3/cursor' ? { baton: sentBaton, batch: first.batch } : { baton: sentBaton, requests }
    const { status, text } = await this.#send(route, JSON.stringify(body))
    const next = /"baton":"([^"]+)"/.exec(text)?.[1]
    if (next) {
      batons.push(next)
      this.#openBatons.push(next)
    }
    if (!next && baton === 'newest') batons.length = 0
    const isCursor = route === '/v3/cursor' && status === 200
    return { status, body: isCursor ? text.trim().split('\n').map(parseResponse) : parseResponse(text) }
  }
}

function parseResponse(text: string): unknown {
  try {
    return normalize(JSON.parse(text))
  } catch {
    return text
  }
}

const IGNORED_KEYS = new Set(
  words('replication_index rows_read rows_written query_duration_ms decltype base_url'),
)

/** Removes the parts of a response that vary between servers or over time. */
function normalize(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalize)
  if (typeof value === 'string') return value.replace(/could not be parsed.*/, 'could not be parsed')
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !IGNORED_KEYS.has(key))
      .map(([key, property]) => [
        key,
        /^(baton|last_insert_rowid)$/.test(key) ? property !== null : normalize(property),
      ]),
  )
}

function createModelClients(world: World, server: ModelServer): Clients {
  return new Clients((path, body) => getResponse(world, server, path, body))
}

/** Advances the clock until there is a response. */
async function getResponse(
  world: World,
  server: ModelServer,
  path: string,
  body: string,
): Promise<{ status: number; text: string }> {
  let result: { status: number; text: string } | undefined
  const reply = async (): Promise<void> => {
    const { status, body: text, lines } = await server.handle({ path, token: null, body })
    let allText = text
    if (lines) for await (const line of lines) allText += line
    result = { status, text: allText }
  }
  void reply()
  await world.runUntil(() => result !== undefined, world.now + 6_000)
  return result ?? { status: 0, text: 'no response' }
}

function createRealClients({ url, headers }: NamedSubject): Clients {
  return new Clients(async (route, body) => {
    const response = await fetch(url + route, { method: 'POST', headers, body })
    return { status: response.status, text: await response.text() }
  })
}

/** Returns whether a request would wait for the lock, which takes 5 s on the real server. */
function wouldWait(
  { database, streams }: ModelServer,
  ownBaton: string | undefined,
  { requests }: ModelExchange,
): boolean {
  const { holder } = database
  const id = Number(ownBaton?.split('.')[0])
  const isOwn = holder !== null && streams.get(id)?.connection === holder
  return holder !== null && !isOwn && /insert|begin|savepoint/i.test(JSON.stringify(requests))
}

async function compare(seed: number): Promise<void> {
  if (!source) throw new Error('libsql-server is missing')
  await using subject = await source.create()
  const world = new World(seed)
  const server = new ModelServer(world, {})
  const clientPairs = [createModelClients(world, server), createRealClients(subject)] as const
  const setup = CREATE_TABLES.map((sql) => ({ type: 'execute', stmt: { sql } }))
  await clientPairs[1].sendRequest({
    client: 0,
    route: '/v2/pipeline',
    baton: 'none',
    requests: [...setup, { type: 'close' }],
  })
  const generator = new RequestGenerator(seeded(seed))
  const sentExchanges: ModelExchange[] = []
  for (let index = 0; index < EXCHANGE_COUNT; index++) {
    const exchange = generator.exchange()
    const ownBaton = exchange.baton === 'newest' ? clientPairs[0].getNewestBaton(exchange.client) : undefined
    if (wouldWait(server, ownBaton, exchange)) continue
    sentExchanges.push(exchange)
    const [model, real] = await Promise.all(clientPairs.map((clients) => clients.sendRequest(exchange)))
    expect(model, `seed ${seed}, at ${JSON.stringify(sentExchanges.at(-1))}`).toEqual(real)
  }
  await clientPairs[1].closeStreams()
}

test.skipIf(!hasSqld)(
  `${SEQUENCE_COUNT} sequences of requests get the same responses from the model as from libsql-server (TEST_SEED=${SEED})`,
  { timeout: 180_000 + SEQUENCE_COUNT * 1_000 },
  async () => {
    for (let index = 0; index < SEQUENCE_COUNT; index++) await compare(SEED + index)
  },
)

/** Runs a writer that blocks another one, and leaves a stream idle. */
async function runUntilTimeouts(clients: Clients, wait: (ms: number) => Promise<void>): Promise<unknown[]> {
  const sendRequest = (client: 0 | 1, baton: ModelExchange['baton'], ...sql: string[]): Promise<Reply> => {
    const requests = sql.map((text) => ({ type: 'execute', stmt: { sql: text } }))
    return clients.sendRequest({ client, route: '/v3/pipeline', baton, requests })
  }
  const responses = [await sendRequest(0, 'none', 'begin immediate', 'insert into t values (1)')]
  const blockedRequest = sendRequest(1, 'none', 'insert into t values (2)')
  await wait(5_300)
  responses.push(await blockedRequest)
  responses.push(await sendRequest(0, 'newest', 'insert into t values (3)', 'insert into t values (4)'))
  responses.push(await sendRequest(1, 'newest', 'begin', 'select a from t order by rowid'))
  await wait(11_300)
  responses.push(await sendRequest(1, 'newest', 'select 1'))
  responses.push(await sendRequest(1, 'none', 'select a from t order by rowid'))
  return responses
}

test.skipIf(!hasSqld)('the model ends transactions and streams when libsql-server does', async () => {
  if (!source) throw new Error('libsql-server is missing')
  await using subject = await source.create()
  const real = createRealClients(subject)
  const setup = CREATE_TABLES.map((sql) => ({ type: 'execute', stmt: { sql } }))
  await real.sendRequest({
    client: 0,
    route: '/v2/pipeline',
    baton: 'none',
    requests: [...setup, { type: 'close' }],
  })
  const world = new World(1)
  const model = createModelClients(world, new ModelServer(world, {}))
  const modelWait = async (ms: number): Promise<void> => {
    await world.runUntil(() => false, world.now + ms)
  }
  expect(await runUntilTimeouts(model, modelWait)).toEqual(await runUntilTimeouts(real, sleep))
  await real.closeStreams()
})
