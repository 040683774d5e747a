import { type Client, openStream } from '@batonsql/core'
import type { TestDatabase } from './test-server.ts'

/** HTTP requests that some work costs. */
export async function countRequests(database: TestDatabase, work: () => Promise<unknown>): Promise<number> {
  const before = database.requestCount()
  await work()
  return database.requestCount() - before
}

/** Takes the write lock with a stream of its own, so that every other write waits. @returns what gives it back */
export async function holdWriteLock(db: Client): Promise<() => Promise<void>> {
  const stream = openStream(db)
  stream.begin('immediate')
  await stream.execute('select 1')
  return async () => {
    await stream.rollback()
    await stream.close()
  }
}

/** A read that counts for a while: a million takes some tenths of a second. */
export const slowRead = (count: number, result = 'max(i)'): string =>
  `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count}) select ${result} from n`

/** A read without an end. */
export const ENDLESS_READ =
  'with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n'

/** All that an iterator gives. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

/** A write of table `t` without an end: it has the write lock until it is interrupted. */
export const ENDLESS_WRITE = `insert into t ${ENDLESS_READ}`

/** Whether a promise settles before another one does. */
export function settlesBefore(first: Promise<unknown>, second: Promise<unknown>): Promise<boolean> {
  const settled = async (promise: Promise<unknown>, isFirst: boolean): Promise<boolean> => {
    await Promise.allSettled([promise])
    return isFirst
  }
  return Promise.race([settled(first, true), settled(second, false)])
}
