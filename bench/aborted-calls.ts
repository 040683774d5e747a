// Measures how aborted calls affect other calls: twelve writers without aborts, and with one transaction in twenty aborted within
// 20 ms, on both servers, with each client. Run: npm run bench:aborted-calls [-- --count 1500 --seed 1]
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'
import { startSqld } from '@batonsql/local-server/sqld'
import { createClient as createLibsqlClient } from '@libsql/client/http'
import { seeded } from '../test/support/random.ts'

const { values } = parseArgs({
  options: { count: { type: 'string', default: '1500' }, seed: { type: 'string', default: '1' } },
})
const WRITERS = 12
const ABORTED_WITHIN_MS = 20
const LIMIT_MS = 120_000
const INSERT = 'insert into aborted_calls values (1)'

/** Runs a transaction of two statements. @param signal aborts it */
type Writer = (signal: AbortSignal | undefined) => Promise<void>
interface Address {
  readonly url: string
  readonly authToken?: string | undefined
}

const CLIENTS: Record<string, (address: Address) => Writer> = {
  '@batonsql/core': (address) => {
    const db = createClient(address)
    return async (signal) => {
      await db.transaction(async (tx) => {
        await tx.execute(INSERT, [], { signal })
        await tx.execute(INSERT, [], { signal })
      })
    }
  },
  // it does not support signals: a transaction is aborted by closing it while its statement is running
  '@libsql/client': ({ url, authToken }) => {
    const db = createLibsqlClient({ url, ...(authToken !== undefined && { authToken }) })
    return async (signal) => {
      const run = async (): Promise<void> => {
        const tx = await db.transaction('write')
        signal?.addEventListener('abort', () => tx.close())
        try {
          await tx.execute(INSERT)
          await tx.execute(INSERT)
          await tx.commit()
        } finally {
          tx.close()
        }
      }
      const whenAborted =
        signal &&
        new Promise<void>((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
      await Promise.race(whenAborted ? [run(), whenAborted] : [run()])
    }
  },
}

interface Result {
  readonly seconds: number
  readonly committed: number
  readonly aborted: number
  readonly failed: number
  /** The longest time without a commit. */
  readonly longestStallMs: number
}

async function measure(writer: Writer, share: number): Promise<Result> {
  const random = seeded(Number(values.seed))
  const count = Number(values.count)
  const startedAt = performance.now()
  let [startedCount, committed, aborted, failed, longestStallMs, lastCommitAt] = [0, 0, 0, 0, 0, startedAt]
  const worker = async (): Promise<void> => {
    while (startedCount < count && performance.now() - startedAt < LIMIT_MS) {
      startedCount += 1
      const isAborted = random() < share
      const signal = isAborted ? AbortSignal.timeout(Math.floor(random() * ABORTED_WITHIN_MS)) : undefined
      try {
        await writer(signal)
        committed += 1
        longestStallMs = Math.max(longestStallMs, performance.now() - lastCommitAt)
        lastCommitAt = performance.now()
      } catch {
        if (signal?.aborted) aborted += 1
        else failed += 1
      }
    }
  }
  await Promise.race([Promise.all(Array.from({ length: WRITERS }, worker)), pause(LIMIT_MS)])
  return { seconds: (performance.now() - startedAt) / 1_000, committed, aborted, failed, longestStallMs }
}

async function openServer(kind: string): Promise<{ address: Address; close(): Promise<unknown> }> {
  if (kind === 'libsql-server') {
    const sqld = await startSqld({ namespaces: false })
    return { address: { url: sqld.url }, close: () => sqld.close() }
  }
  const server = await startLocalServer()
  return { address: await server.createDatabase('aborted-calls'), close: () => server.close() }
}

for (const kind of ['embedded', 'libsql-server']) {
  for (const [name, open] of Object.entries(CLIENTS)) {
    const server = await openServer(kind)
    const { url, authToken } = server.address
    const direct = createClient({ url, authToken })
    await direct.execute('create table aborted_calls (a)')
    const writer = open({ url, authToken })
    // alternate, so that other load on the machine affects both
    const results: Result[][] = [[], []]
    for (let round = 0; round < 2; round++)
      for (const [index, share] of [0, 1 / 20].entries()) results[index]?.push(await measure(writer, share))
    const rate = (runs: readonly Result[]): number =>
      runs.reduce((sum, { committed }) => sum + committed, 0) /
      runs.reduce((sum, { seconds }) => sum + seconds, 0)
    const [withoutAborts = [], withAborts = []] = results
    const sum = (getCount: (result: Result) => number): number =>
      withAborts.reduce((total, result) => total + getCount(result), 0)
    console.log(
      `${kind}, ${name}: ${rate(withoutAborts).toFixed(0)} transactions/s, with one in twenty aborted ${rate(withAborts).toFixed(0)}: ` +
        `ratio ${(rate(withAborts) / rate(withoutAborts)).toFixed(2)} (${sum(({ aborted }) => aborted)} aborted, ${sum(({ failed }) => failed)} failed, ` +
        `longest stall ${Math.max(...withAborts.map(({ longestStallMs }) => longestStallMs)).toFixed(0)} ms)`,
    )
    await direct.close()
    await server.close()
  }
}
process.exit()
