import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ACCEPTED_DIFFERENCES, NOT_REPLAYED } from './accepted-differences.ts'
import { type Mismatch, replay } from './replay.ts'
import { readTranscripts, type Transcript, waitingTimeMs } from './transcript.ts'

/** Cases that mostly wait run beside the others, so many at a time. */
const SLOW_LANES = 12
const SLOW_FROM_MS = 1_000

const all = readTranscripts().filter((transcript) => !(transcript.id in NOT_REPLAYED))
const plain = all.filter((transcript) => transcript.server === 'plain')
const slow = plain.filter((transcript) => waitingTimeMs(transcript) >= SLOW_FROM_MS)
const outcomes = new Map<number, Promise<Mismatch[]>>()

let server: LocalServer

beforeAll(async () => {
  server = await startLocalServer()
  const queue = [...slow]
  const started = new Map<number, (outcome: Promise<Mismatch[]>) => void>()
  for (const { id } of slow) outcomes.set(id, new Promise((resolve) => started.set(id, resolve)))
  const lane = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const outcome = replayAlone(next)
      started.get(next.id)?.(outcome)
      await outcome.catch(() => {}) // it fails the test that waits for it
    }
  }
  for (let count = 0; count < SLOW_LANES; count += 1) void lane()
})
afterAll(() => server.close())

/** A database of its own for each case. */
async function replayAlone(transcript: Transcript): Promise<Mismatch[]> {
  const name = `case-${transcript.id}`
  await server.createDatabase(name)
  try {
    return await replay(transcript, { url: server.url, prefix: `/${name}`, token: () => 'none' })
  } finally {
    await server.removeDatabase(name)
  }
}

describe('answers like the real server', () => {
  test.each(plain.map((transcript) => [transcript.id, transcript.title, transcript] as const))(
    '%d %s',
    async (id, _, transcript) => {
      const mismatches = await (outcomes.get(id) ?? replayAlone(transcript))
      if (!(id in ACCEPTED_DIFFERENCES)) return expect(mismatches).toEqual([])
      if (mismatches.length === 0) throw new Error(`case ${id} answers as recorded: remove it from the table`)
    },
    120_000,
  )
})
