// Measures the cost of durable writes, which the embedded server acknowledges only once they are on disk: compares a
// server with a data directory to one without, which does not wait for the disk. npm run bench:durable [-- --count N]
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createClient } from '@batonsql/core'
import { startLocalServer } from '@batonsql/local-server'

const ROUNDS = 5
const { values } = parseArgs({ options: { count: { type: 'string', default: '1000' } } })
const count = Number(values.count)

/** Returns the time per write in ms, with the given number of writes in flight. */
async function timeWrites(dataDirectory: string | undefined, inFlight: number): Promise<number> {
  await using server = await startLocalServer({
    ...(dataDirectory !== undefined && { dataDirectory }),
    auth: false,
  })
  await using client = createClient({ url: server.url })
  await client.execute('create table if not exists t(id integer primary key, a text)')
  const write = async (share: number): Promise<void> => {
    for (let done = 0; done < share; done += 1) await client.execute('insert into t(a) values (?)', ['a row'])
  }
  await write(100)
  const startedAt = performance.now()
  await Promise.all(Array.from({ length: inFlight }, () => write(count / inFlight)))
  return (performance.now() - startedAt) / count
}

const median = (times: number[]): string => (times.sort((a, b) => a - b)[ROUNDS >> 1] ?? 0).toFixed(2)

// on the same disk as the repository, because the default temporary directory may be in memory
const folder = await mkdtemp(join(process.cwd(), '.durable-'))
try {
  for (const inFlight of [1, 16]) {
    const [durableTimes, memoryTimes]: [number[], number[]] = [[], []]
    for (let round = 0; round < ROUNDS; round += 1) {
      durableTimes.push(await timeWrites(join(folder, `${inFlight}-${round}`), inFlight))
      memoryTimes.push(await timeWrites(undefined, inFlight))
    }
    console.log(
      `${inFlight} at a time: ${median(durableTimes)} ms per write with a data directory, ${median(memoryTimes)} ms without`,
    )
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}
