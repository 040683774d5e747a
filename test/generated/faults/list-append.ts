import { type AtomicBatchOptions, type Client, DatabaseError } from '@batonsql/core'
import { expect } from 'vitest'
import { pick } from '../../support/random.ts'
import { waitFor } from '../../support/wait-for.ts'
import { checkHistory, type HistoryReport, type HistoryTransaction } from './history-checker.ts'

/** A transaction, or a savepoint in one. */
export interface ListHandle {
  /** @returns the first column */
  query(sql: string, args: number[], signal?: AbortSignal): Promise<number[]>
  savepoint(callback: (inner: ListHandle) => Promise<void>): Promise<void>
}

/** A client under test: core, Kysely or Drizzle. */
export interface ListClient {
  /** Whether the reads of a transaction are checked only by its commit: those of a failed one may have seen several states. */
  readonly isOptimistic?: boolean
  transaction(callback: (tx: ListHandle) => Promise<void>, mode: 'immediate' | 'readonly'): Promise<void>
}

export interface ListAppendOptions {
  readonly order?: 'real-time' | 'session'
  /** Called occasionally, for example to kill the server. */
  readonly disrupt?: (() => Promise<unknown>) | undefined
  /** Approximate number of disruptions. */
  readonly disruptions?: number
}

const APPEND = 'insert into append (key, value) values (?, ?)'
const READ = 'select value from append where key = ? order by id'
const WORKERS = 8
/** Number of lists for each part of the history. Every part has its own lists, so that none becomes long. */
const KEYS_PER_PART = 4
const PART_SIZE = 100

class AbandonedError extends Error {}

/** The operations of one transaction so far. */
class Progress {
  appends: [number, number][] = []
  undone: number[] = []
  reads: { key: number; values: number[]; ownValues: number[] }[] = []

  ownValues(key: number): number[] {
    return this.appends.filter(([listKey]) => listKey === key).map(([, value]) => value)
  }

  /** Undoes all appends after the first `count`. */
  undo(count: number): void {
    this.undone.push(...this.appends.splice(count).map(([, value]) => value))
  }
}

/** Waits until a client's server has this run's lists: a replica may still have those of the previous run. */
const waitForEmptyLists = (client: Client): Promise<void> =>
  waitFor(async () =>
    expect((await client.execute('select count(*) as n from append')).rows).toEqual([{ n: 0 }]),
  )

/**
 * Runs random transactions that append to lists and read them, through several clients at once, with savepoints, batches,
 * aborted calls and network faults; then checks the history.
 * @param clients each with its core client, for calls outside transactions @param direct a client without faults
 */
export async function runListAppend(
  clients: readonly { readonly list: ListClient; readonly client: Client }[],
  direct: Client,
  count: number,
  random: () => number,
  { order = 'real-time', disrupt, disruptions = 0 }: ListAppendOptions = {},
): Promise<HistoryReport> {
  await direct.batch([
    'drop table if exists append',
    'create table append (id integer primary key autoincrement, key integer, value integer unique)',
    'create index append_key on append (key)',
  ])
  for (const { client } of clients) await waitForEmptyLists(client)
  const history: HistoryTransaction[] = []
  let lastValue = 0
  let nextId = 0

  const append = async (
    tx: ListHandle,
    record: Progress,
    key: number,
    signal?: AbortSignal,
  ): Promise<void> => {
    const value = (lastValue += 1)
    try {
      await tx.query(APPEND, [key, value], signal)
      record.appends.push([key, value])
    } catch (error) {
      record.undone.push(value)
      throw error
    }
  }
  const runOperation = async (
    tx: ListHandle,
    record: Progress,
    keys: readonly number[],
    depth: number,
  ): Promise<void> => {
    const key = pick(random, keys)
    const choice = random()
    if (choice < 0.4)
      await append(
        tx,
        record,
        key,
        random() < 0.05 ? AbortSignal.timeout(Math.floor(random() * 5)) : undefined,
      )
    else if (choice < 0.8 || depth > 1) {
      const values = await tx.query(READ, [key])
      record.reads.push({ key, values, ownValues: record.ownValues(key) })
    } else {
      const appendCount = record.appends.length
      await tx
        .savepoint(async (inner) => {
          for (let index = 0; index < 2; index++) await runOperation(inner, record, keys, depth + 1)
          if (random() < 0.4) throw new AbandonedError()
        })
        .catch((error: unknown) => {
          record.undo(appendCount)
          if (!(error instanceof AbandonedError)) throw error
        })
    }
  }
  /** Runs a transaction in one request. */
  const runSingle = async (client: Client, record: Progress, key: number): Promise<void> => {
    const values = [(lastValue += 1), (lastValue += 1)]
    const appendStatements = values.map((value) => ({ sql: APPEND, args: [key, value] }))
    const choice = random()
    const options: AtomicBatchOptions = random() < 0.05 ? { signal: AbortSignal.timeout(2) } : {}
    if (choice < 0.4) {
      const { rows } = await client.execute({ sql: READ, args: [key] }, undefined, {
        ...options,
        rowMode: 'array',
      })
      record.reads.push({ key, values: rows.map(([value]) => value as number), ownValues: [] })
      return
    }
    // recorded regardless of the outcome
    record.appends = choice < 0.7 ? [[key, values[0] as number]] : values.map((value) => [key, value])
    if (choice < 0.7) await client.execute(appendStatements[0]!, undefined, options)
    else await client.batch(appendStatements, options)
  }
  const worker = async (session: number): Promise<void> => {
    const { list, client } = clients[session % clients.length]!
    for (let id = nextId++; id < count; id = nextId++) {
      if (disrupt && disruptions > 0 && id % Math.ceil(count / disruptions) === 1) await disrupt()
      const firstKey = Math.floor(id / PART_SIZE) * KEYS_PER_PART
      const keys = Array.from({ length: KEYS_PER_PART }, (_, index) => firstKey + index)
      let record = new Progress()
      const isSingle = random() < 0.3
      const isReadOnly = !isSingle && random() < 0.15
      const shouldThrow = random() < 0.1
      const start = performance.now()
      const outcome = await (isSingle
        ? runSingle(client, record, pick(random, keys))
        : list.transaction(
            async (tx) => {
              const previousAttempt = record
              record = new Progress()
              // the callback runs again if the transaction is lost, in which case nothing of the previous attempt was applied
              record.undone.push(
                ...previousAttempt.undone,
                ...previousAttempt.appends.map(([, value]) => value),
              )
              if (isReadOnly)
                for (const key of keys)
                  record.reads.push({ key, values: await tx.query(READ, [key]), ownValues: [] })
              else
                for (let remaining = 1 + Math.floor(random() * 4); remaining > 0; remaining--)
                  await runOperation(tx, record, keys, 0)
              if (shouldThrow) throw new AbandonedError()
            },
            isReadOnly ? 'readonly' : 'immediate',
          )
      ).then(
        () => 'committed' as const,
        (error: unknown) => getOutcome(error, isSingle),
      )
      const { appends, undone, reads } = record
      history.push({
        id,
        session,
        start,
        end: performance.now(),
        outcome,
        appends,
        undone,
        // the reads of a rolled-back transaction are checked like all others
        reads: list.isOptimistic && !isSingle && outcome !== 'committed' ? [] : reads,
      })
    }
  }
  await Promise.all(Array.from({ length: WORKERS }, (_, session) => worker(session)))
  const { rows } = await direct.execute<{ key: number; value: number }>(
    'select key, value from append order by id',
  )
  const finalLists = Map.groupBy(rows, ({ key }) => key)
  return checkHistory(
    history,
    new Map([...finalLists].map(([key, values]) => [key, values.map(({ value }) => value)])),
    order,
  )
}

/**
 * Returns the outcome of the whole call from its error. Any other error than ours means that the call was aborted; in a
 * transaction, this happened before COMMIT.
 */
function getOutcome(error: unknown, isSingle: boolean): 'not_applied' | 'unknown' {
  if (error instanceof DatabaseError) return error.outcome
  if (error instanceof Error && error.cause) return getOutcome(error.cause, isSingle)
  return isSingle ? 'unknown' : 'not_applied'
}
