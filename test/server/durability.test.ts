/*
 * Kills a server at random moments while eight clients write to one database in every possible way, restarts it on the same
 * directory and checks: every acknowledged change exists, no change of an open transaction exists, and the file is intact.
 * DURABILITY_KILLS sets the number of kills (200 in the long run); TEST_SEED reproduces the times of the kills and the
 * sizes of the writes, but not the order in which clients run.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { SEED, seeded } from '../support/random.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { type DevServer, killServer, startDevServer } from './dev-server.ts'
import { CLIENTS, countAcknowledged, countAttempts, type Ledger, runClient } from './durability-clients.ts'
import { query } from './wire.ts'

const KILL_COUNT = Number(process.env['DURABILITY_KILLS'] ?? 6)
/** The server is killed shortly after at most this many acknowledged changes. */
const MAX_CHANGES_BEFORE_KILL = 40
const MAX_KILL_DELAY_MS = 30
const MAX_LIFETIME_MS = 5_000

test(`SIGKILL ${KILL_COUNT} times, TEST_SEED=${SEED}`, {
  timeout: 30_000 + KILL_COUNT * 15_000,
}, async () => {
  const directory = createTemporaryDirectory()
  const ledger: Ledger = new Map()
  const random = seeded(SEED)
  let acknowledged = 0
  for (let round = 0; round <= KILL_COUNT; round += 1) {
    const server = await startDevServer(directory)
    onTestFinished(() => killServer(server))
    if (round === 0)
      await query(
        server.url,
        'CREATE TABLE t (client, number, part, filler, PRIMARY KEY (client, number, part))',
      )
    acknowledged = await checkDatabase(server, ledger)
    if (round === KILL_COUNT) break
    // checked rows are shortened, so that the last check is not slower than the first
    await query(server.url, "UPDATE t SET filler = '' WHERE filler <> ''")
    const clients = CLIENTS.map((kind, client) => runClient(server.url, kind, { client, ledger, random }))
    const goal = acknowledged + 1 + Math.floor(random() * MAX_CHANGES_BEFORE_KILL)
    const deadline = Date.now() + MAX_LIFETIME_MS
    while (countAcknowledged(ledger) < goal && Date.now() < deadline) await sleep(1)
    await sleep(MAX_KILL_DELAY_MS * random())
    await killServer(server)
    await Promise.all(clients)
  }
  expect(acknowledged).toBeGreaterThan(KILL_COUNT)
  const kinds = CLIENTS.map(
    (kind, client) => `${kind}: ${countAcknowledged(ledger, client)} of ${countAttempts(ledger, client)}`,
  )
  console.log(`acknowledged of those attempted: ${kinds.join(', ')}`)
})

/** Compares the database with the acknowledged changes. @returns the number of acknowledged changes */
async function checkDatabase({ url }: DevServer, ledger: Ledger): Promise<number> {
  expect(await query(url, 'PRAGMA integrity_check')).toEqual([['ok']])
  const rows = await query(url, 'SELECT client, number, count(*) FROM t GROUP BY 1, 2')
  const rowCounts = new Map(
    rows.map(([client, number, parts]) => [`${String(client)}/${String(number)}`, Number(parts)]),
  )
  const problems: string[] = []
  for (const [key, change] of ledger) {
    const parts = rowCounts.get(key) ?? 0
    const exists = parts === change.parts
    if (change.outcome === 'acknowledged' && !exists)
      problems.push(`${key}: acknowledged, ${parts} of ${change.parts}`)
    if (change.outcome === 'never committed' && parts > 0)
      problems.push(`${key}: never committed, ${parts} rows`)
    // a change that was not acknowledged may exist completely or not at all, and this must not change afterwards
    if (change.outcome === 'unknown' && parts > 0 && !exists)
      problems.push(`${key}: torn, ${parts} of ${change.parts}`)
    if (change.outcome === 'unknown') change.outcome = exists ? 'acknowledged' : 'never committed'
    rowCounts.delete(key)
  }
  expect([problems, [...rowCounts.keys()]]).toEqual([[], []])
  return countAcknowledged(ledger)
}
