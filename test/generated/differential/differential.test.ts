/*
 * Sends generated sequences of requests to the embedded server and to the real libsql-server, and compares every
 * value, code and message. FUZZ_SEQUENCES sets their number, TEST_SEED repeats a run; `npm test -- fuzz` is the long
 * version.
 */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hasSqld } from '../../support/has-sqld.ts'
import { SEED } from '../../support/random.ts'
import { isAccepted } from './accepted-differences.ts'
import { useBothServers } from './both-servers.ts'
import { REGRESSIONS } from './regression-sequences.ts'
import { type Reply, runSequence } from './run-sequence.ts'
import { type Exchange, SETUP_EXCHANGE, sequence } from './sequences.ts'
import type { SubjectSource } from './servers.ts'

const SEQUENCE_COUNT = Number(process.env['FUZZ_SEQUENCES'] ?? 60)
// the short version uses a fixed seed, so that a failure is caused by the current change; the long version does not
const TIMEOUT_MS = 60_000 + SEQUENCE_COUNT * 2_000
// a short run repeats the same inputs: `npm test -- fuzz` searches for differences between the servers
const FIRST_SEED = SEQUENCE_COUNT <= 60 && process.env['TEST_SEED'] === undefined ? 20_261_122 : SEED
/** Number of sequences from one seed. After a difference, the rest of the batch is skipped. */
const BATCH_SIZE = 100
const MAX_REPORTS = 20

const servers = useBothServers()

/**
 * Returns the first request to which the servers respond differently, with both responses. Returns null if there is none, or if
 * this request or an earlier one has an accepted difference.
 */
async function findDifference(
  exchanges: readonly Exchange[],
): Promise<{ request: unknown; embedded: unknown; real: unknown } | null> {
  const allExchanges = [SETUP_EXCHANGE, ...exchanges]
  const [embedded, real] = await Promise.all(
    [servers.embedded, servers.real].map((source) => getResponses(source, allExchanges)),
  )
  for (const [index, exchange] of allExchanges.entries()) {
    if (isDeepStrictEqual(embedded?.[index], real?.[index])) continue
    // an accepted difference affects later responses
    if (allExchanges.slice(0, index + 1).some(isAccepted)) return null
    return { request: exchange, embedded: embedded?.[index], real: real?.[index] }
  }
  return null
}

async function getResponses(source: SubjectSource, exchanges: readonly Exchange[]): Promise<Reply[]> {
  await using subject = await source.create()
  return await runSequence(subject, exchanges)
}

/** Runs many sequences in small batches, so that one difference does not hide the next. */
async function findDifferences(count: number): Promise<readonly string[]> {
  const reports: string[] = []
  const property = fc.asyncProperty(sequence, async (exchanges) => {
    expect(await findDifference(exchanges)).toBeNull()
  })
  for (let done = 0; done < count && reports.length < MAX_REPORTS; done += BATCH_SIZE) {
    const numRuns = Math.min(BATCH_SIZE, count - done)
    const result = await fc.check(property, { seed: FIRST_SEED + done / BATCH_SIZE, numRuns })
    if (result.failed) reports.push(fc.defaultReportMessage(result) ?? 'differs')
    if ((done + numRuns) % 1_000 === 0)
      console.log(`${done + numRuns} sequences, ${reports.length} batches differ`)
  }
  return reports
}

test.skipIf(!hasSqld)(
  `${SEQUENCE_COUNT} generated sequences get the same responses from both servers (TEST_SEED=${FIRST_SEED})`,
  { timeout: TIMEOUT_MS },
  async () => {
    console.log(`differential: ${SEQUENCE_COUNT} sequences, TEST_SEED=${FIRST_SEED}`)
    expect(await findDifferences(SEQUENCE_COUNT)).toEqual([])
  },
)

test.skipIf(!hasSqld).each(REGRESSIONS)('regression: $title', async ({ exchanges }) => {
  expect(await findDifference(exchanges)).toBeNull()
})
