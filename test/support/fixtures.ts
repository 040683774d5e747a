import type { Client, Value } from '@batonsql/core'
import { openStream } from '@batonsql/core/adapter'
import type { TestDatabase } from './test-server.ts'

/** Counts the HTTP requests of an operation. */
export async function countRequests(database: TestDatabase, work: () => Promise<unknown>): Promise<number> {
  const before = database.requestCount()
  await work()
  return database.requestCount() - before
}

/** Reads the values of a query with one column. */
export const readColumn = async (db: Client, sql: string): Promise<Value[]> =>
  (await db.execute(sql, [], { rowMode: 'array' })).rows.flat()

/** Acquires the write lock with a separate stream, so that every other write waits. @returns a function that releases it */
export async function holdWriteLock(db: Client): Promise<() => Promise<void>> {
  const stream = openStream(db)
  stream.begin('immediate')
  await stream.execute('select 1')
  return async () => {
    await stream.rollback()
    await stream.close()
  }
}

/** Returns a read that runs for a while: counting to a million takes a few tenths of a second. */
export const slowRead = (count: number, result = 'max(i)'): string =>
  `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count}) select ${result} from n`

/** A read that never ends. */
export const ENDLESS_READ =
  'with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n'

/** Collects all values of an iterator. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const values: T[] = []
  for await (const item of items) values.push(item)
  return values
}

/** A write to table `t` that never ends: it holds the write lock until it is interrupted. */
export const ENDLESS_WRITE = `insert into t ${ENDLESS_READ}`

/** Returns whether a promise settles before another one does. */
export function settlesBefore(first: Promise<unknown>, second: Promise<unknown>): Promise<boolean> {
  const waitFor = async (promise: Promise<unknown>, isFirst: boolean): Promise<boolean> => {
    await Promise.allSettled([promise])
    return isFirst
  }
  return Promise.race([waitFor(first, true), waitFor(second, false)])
}
