// Replays the recorded cases on the program from which they were recorded. With a newer libsql-server, this shows what has
// changed. A normal run replays every eighth case; `npm test -- fuzz` replays all of them.
import { type SqldProcess, startSqld } from '@batonsql/local-server/sqld'
import { describe, expect, test } from 'vitest'
import { hasSqld } from '../support/has-sqld.ts'
import { replay, replayWithRetries } from './replay.ts'
import { readTranscripts, type Transcript, waitingTimeMs } from './transcript.ts'

/** One in this many cases is replayed. */
const CASE_INTERVAL = Number(process.env['DRIFT_EVERY'] ?? 8)
/** Cases that mostly wait are replayed only on the embedded server, unless requested. */
const WAITING_LIMIT_MS = process.env['DRIFT_ALL'] ? Infinity : 1_000

/** Cases that cannot be replayed in this way, and why. */
const NOT_REPLAYED: Readonly<Record<number, string>> = {
  77: 'restarts the server',
  223: 'which of two requests comes first depends on the machine',
  225: 'which of five requests comes first depends on the machine',
  253: 'the response is truncated at a position that depends on buffers',
}

function replayOnSqld(transcript: Transcript) {
  return replayWithRetries(async () => {
    await using server: SqldProcess = await startSqld()
    return await replay(transcript, {
      url: server.url,
      prefix: '',
      names: new Map(),
      configure: () => Promise.reject(new Error('a plain server is not administered')),
      token: () => 'none',
    })
  })
}

describe.runIf(hasSqld)('libsql-server responds as recorded', () => {
  const cases = readTranscripts().filter(
    (transcript) => transcript.server === 'plain' && waitingTimeMs(transcript) < WAITING_LIMIT_MS,
  )

  test.concurrent.for(
    cases
      .filter(({ id }, index) => !(id in NOT_REPLAYED) && index % CASE_INTERVAL === 0)
      .map((transcript) => [transcript.id, transcript.title, transcript] as const),
  )('%d %s', async ([, , transcript]) => expect(await replayOnSqld(transcript)).toEqual([]))
})
