import { describe, expect, test } from 'vitest'
import { pick, seeded } from '../support/random.ts'
import {
  ACCESS_CHANGES,
  type AccessChange,
  DatabaseInUse,
  LONG_READ,
  send,
  type UnreadResponse,
} from './database-in-use.ts'
import { Harness, sql } from './platform-harness.ts'

const SEED_COUNT = Number(process.env['ENDED_ACCESS_SEEDS'] ?? 6)
const READS = ['SELECT 1', 'SELECT count(*) FROM t', LONG_READ, 'SELECT * FROM long']

/** Generates the requests of one client; a seed determines their order and statements. */
class GeneratedRequests {
  readonly #database: DatabaseInUse
  readonly #random: () => number
  #lastValue = 0
  /** Requests whose responses never end on their own. */
  readonly listeners: UnreadResponse[] = []

  constructor(database: DatabaseInUse, random: () => number) {
    this.#database = database
    this.#random = random
  }

  /** Sends a request whose response is not read. */
  start(): UnreadResponse {
    const kind = pick(this.#random, ['cursor', 'cursor', 'pipeline', 'batch', 'sequence', 'get'])
    const { client } = this.#database
    if (kind === 'get') return this.#get(pick(this.#random, ['/dump', '/beta/listen?table=t', '/export/1']))
    const steps = this.#statements().map((text) => ({ stmt: { sql: text } }))
    if (kind === 'cursor') return send(client, 'POST', '/v3/cursor', { batch: { steps } })
    const requests = {
      pipeline: steps.map(({ stmt }) => ({ type: 'execute', stmt })),
      batch: [{ type: 'batch', batch: { steps } }],
      sequence: [{ type: 'sequence', sql: steps.map(({ stmt }) => stmt.sql).join('; ') }],
    }[kind as 'pipeline' | 'batch' | 'sequence']
    return send(client, 'POST', '/v3/pipeline', { requests: [...requests, { type: 'close' }] })
  }

  /** Opens a stream with a transaction that has written. */
  async open(): Promise<string | null> {
    const { host, token } = this.#database
    const begin = pick(this.#random, ['BEGIN', 'BEGIN IMMEDIATE', 'SAVEPOINT s'])
    return (await sql(host, token, [begin, this.#insert()], { keepOpen: true })).baton
  }

  /** Continues a stream with reads and the end of its transaction. */
  continue(baton: string): UnreadResponse {
    const ends = ['COMMIT', 'END', 'RELEASE s', 'COMMIT; BEGIN', 'ROLLBACK']
    const texts = [pick(this.#random, READS), ...pick(this.#random, ends).split('; ')]
    const batch = { steps: texts.map((text) => ({ stmt: { sql: text } })) }
    return this.#random() < 0.5
      ? send(this.#database.client, 'POST', '/v3/cursor', { baton, batch })
      : send(this.#database.client, 'POST', '/v3/pipeline', { baton, requests: [{ type: 'batch', batch }] })
  }

  #get(path: string): UnreadResponse {
    const request = send(this.#database.client, 'GET', path)
    if (path.includes('listen')) this.listeners.push(request)
    return request
  }

  #statements(): readonly string[] {
    const count = 1 + Math.floor(this.#random() * 4)
    const work = Array.from({ length: count }, () =>
      this.#random() < 0.5 ? this.#insert() : pick(this.#random, READS),
    )
    return this.#random() < 0.5 ? work : [pick(this.#random, ['BEGIN', 'BEGIN IMMEDIATE']), ...work, 'COMMIT']
  }

  #insert(): string {
    this.#lastValue += 1
    return `INSERT INTO t VALUES (${this.#lastValue})`
  }
}

/** Picks one change, or two of different kinds that are requested at the same time. */
function pickChanges(random: () => number): readonly AccessChange[] {
  const firstChange = pick(random, ACCESS_CHANGES)
  // a rotation can be combined with any change except a transfer
  const isRotation = (change: AccessChange): boolean => change.name.includes('rotation')
  const secondChange = pick(random, ACCESS_CHANGES.filter(isRotation))
  return random() < 0.3 && firstChange !== secondChange && firstChange.name !== 'a transfer to another group'
    ? [firstChange, secondChange]
    : [firstChange]
}

describe('nothing is written after the revocation of access is acknowledged', () => {
  test.each(Array.from({ length: SEED_COUNT }, (_, index) => index + 1))('seed %i', async (seed) => {
    await using harness = await Harness.start()
    const random = seeded(seed)
    const database = await DatabaseInUse.create(harness, 'app')
    await database.createLongTable()
    const generated = new GeneratedRequests(database, random)
    const baton = random() < 0.5 ? await generated.open() : null
    const pendingRequests = Array.from({ length: 2 + Math.floor(random() * 4) }, () => generated.start())
    if (baton !== null && random() < 0.7) pendingRequests.unshift(generated.continue(baton))
    // requests that wait for the write lock have not begun
    if (random() < 0.5) await pendingRequests[0]?.started
    const changes = pickChanges(random)
    await Promise.all(changes.map(({ change }) => change(database)))
    for (const { restoreReads } of changes) await restoreReads?.(database)
    const rows = await database.rows()
    const { host, token } = database
    for (const listener of generated.listeners) listener.abort()
    const outcomes = await Promise.all([
      ...pendingRequests.map((request) => request.outcome()),
      ...(baton === null ? [] : [sql(host, token, 'COMMIT', { baton })]),
    ])
    expect([changes.map(({ name }) => name), await database.rows()]).toEqual([
      changes.map(({ name }) => name),
      rows,
    ])
    if (baton !== null) expect(outcomes.at(-1)?.status).toBeGreaterThanOrEqual(400)
  })
})
