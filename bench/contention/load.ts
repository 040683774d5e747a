import { setTimeout as pause } from 'node:timers/promises'
import { seeded } from '../../test/support/random.ts'
import type { Program, Work } from './clients.ts'

/** The number and kind of writers, and of concurrent readers. */
export interface Load {
  readonly name: string
  readonly writers: number
  readonly transactions: 'short' | 'long' | 'aborted'
  /** Number of workers that keep a read transaction open, for three seconds at a time. */
  readonly reports: number
  /** Multiplies the default duration, unless `--seconds` is set. */
  readonly durationFactor: number
}

/** The loads. Under the first one, libsql-server loses a writer. */
export const LOADS: readonly Load[] = [
  { name: '12 writers, two reports', writers: 12, transactions: 'short', reports: 2, durationFactor: 4 },
  { name: '50 writers, two reports', writers: 50, transactions: 'short', reports: 2, durationFactor: 1 },
  { name: '200 writers, two reports', writers: 200, transactions: 'short', reports: 2, durationFactor: 1 },
  { name: '12 writers, no report', writers: 12, transactions: 'short', reports: 0, durationFactor: 1 },
  {
    name: '12 writers, long transactions, two reports',
    writers: 12,
    transactions: 'long',
    reports: 2,
    durationFactor: 1,
  },
  {
    name: '12 writers, one in 50 aborted, two reports',
    writers: 12,
    transactions: 'aborted',
    reports: 2,
    durationFactor: 1,
  },
]

/** The outcome of a load. */
export interface Result {
  readonly committed: number
  readonly failed: number
  readonly seconds: number
  /** The longest time without a commit, including the time up to the end of the load. */
  readonly longestStallMs: number
  /** Whether a write succeeded afterwards. */
  readonly isResponsive: boolean
}

export const TABLE = 'CREATE TABLE IF NOT EXISTS w (id INTEGER PRIMARY KEY, a)'
const INSERT = 'INSERT INTO w (a) VALUES (randomblob(3000))'
const SELECT = 'SELECT count(*) FROM w WHERE id < 50'
const REPORT_MS = 3_000
const ABORTED_SHARE = 1 / 50
const ABORTED_WITHIN_MS = 20
/** Pause after a failure, so that calls that fail immediately do not cause a busy loop. */
const PAUSE_AFTER_FAILURE_MS = 20
/** Longer than any wait for the write lock. */
const RESPONSIVE_WITHIN_MS = 15_000

/** Applies a load to a database for the given number of seconds, and then checks that it still accepts writes. */
export async function measure(load: Load, program: Program, seconds: number, seed: number): Promise<Result> {
  const random = seeded(seed)
  const startedAt = performance.now()
  const endsAt = startedAt + seconds * 1_000
  let [committed, failed, longestStallMs, lastCommitAt, isCounting] = [0, 0, 0, startedAt, true]
  const write = async (): Promise<void> => {
    while (performance.now() < endsAt) {
      try {
        await program.write(nextWork(load, random))
        if (!isCounting) return
        committed += 1
        longestStallMs = Math.max(longestStallMs, performance.now() - lastCommitAt)
        lastCommitAt = performance.now()
      } catch {
        if (isCounting) failed += 1
        await pause(PAUSE_AFTER_FAILURE_MS)
      }
    }
  }
  const report = async (): Promise<void> => {
    while (performance.now() < endsAt) await program.report(SELECT, REPORT_MS).catch(() => {})
  }
  const workers = [
    ...Array.from({ length: load.writers }, write),
    ...Array.from({ length: load.reports }, report),
  ]
  await pause(seconds * 1_000)
  isCounting = false
  const endedAt = performance.now()
  const finalWrite = program.write({ statements: [INSERT], thinkMs: 0, abortAfterMs: null })
  const isResponsive = await Promise.race([
    finalWrite.then(
      () => true,
      () => false,
    ),
    pause(RESPONSIVE_WITHIN_MS, false, { ref: false }),
  ])
  if (isResponsive)
    await Promise.race([Promise.all(workers), pause(RESPONSIVE_WITHIN_MS, null, { ref: false })])
  return {
    committed,
    failed,
    seconds: (endedAt - startedAt) / 1_000,
    longestStallMs: Math.max(longestStallMs, endedAt - lastCommitAt),
    isResponsive,
  }
}

function nextWork({ transactions }: Load, random: () => number): Work {
  const isAborted = transactions === 'aborted' && random() < ABORTED_SHARE
  const statements = random() < 0.5 ? [INSERT, SELECT] : [INSERT]
  if (transactions === 'long')
    return { statements: [INSERT, SELECT, INSERT], thinkMs: 20, abortAfterMs: null }
  return { statements, thinkMs: 0, abortAfterMs: isAborted ? Math.floor(random() * ABORTED_WITHIN_MS) : null }
}
