import { type Client, DatabaseError, readRows, type Transaction } from '@batonsql/core'
import { pick } from '../../support/random.ts'

export interface NestedAccount {
  readonly transactions: number
  readonly committed: number
  /** Violations: rows without an acknowledgement, and acknowledged rows that are missing. */
  readonly mistakes: readonly string[]
}

type Kind = 'insert' | 'batch' | 'conflict' | 'syntax' | 'or-rollback' | 'rows' | 'savepoint'

const KINDS: readonly Kind[] = [
  ...Array.from({ length: 5 }, () => 'insert' as const),
  'batch',
  'conflict',
  'syntax',
  'rows',
  'savepoint',
  'savepoint',
]

class AbandonedError extends Error {}

/**
 * Runs random transactions with nested savepoints, batches, cursors, rejected statements and aborted calls,
 * one after another and concurrently, then checks that exactly the acknowledged rows exist.
 * @param hasCursors whether the server has `/v3/cursor`
 */
export async function nestTransactions(
  db: Client,
  direct: Client,
  count: number,
  random: () => number,
  hasCursors: boolean,
): Promise<NestedAccount> {
  await direct.batch([
    'drop table if exists nested',
    'create table nested (key integer primary key, run integer, taken text unique)',
    "insert into nested values (-1, -1, 'taken')",
  ])
  const mistakes: string[] = []
  let lastKey = 0
  let committed = 0

  /** Runs statements on one handle; adds the keys of those that were acknowledged. */
  const perform = async (tx: Transaction, run: number, depth: number, kept: Set<number>): Promise<void> => {
    const pending: Promise<unknown>[] = []
    for (let at = 1 + Math.floor(random() * 4); at > 0; at--) {
      const isRare = random() < 0.03
      const done = act(tx, isRare ? 'or-rollback' : pick(random, KINDS), run, depth, kept).catch(
        (error: unknown) => {
          const isExpected =
            error instanceof DatabaseError || error instanceof AbandonedError || isReading(error)
          if (!isExpected) throw error
        },
      )
      if (random() < 0.6) pending.push(done)
      else await done
    }
    await Promise.all(pending)
  }

  const act = async (
    tx: Transaction,
    kind: Kind,
    run: number,
    depth: number,
    kept: Set<number>,
  ): Promise<void> => {
    const key = (lastKey += 1)
    const insert = (taken: string | null) => ({
      sql: 'insert into nested values (?, ?, ?)',
      args: [(lastKey += 1), run, taken],
    })
    const options = random() < 0.1 ? { signal: AbortSignal.abort(new AbandonedError()) } : {}
    if (kind === 'syntax') await tx.execute('selec', [], options)
    else if (kind === 'conflict') await tx.execute(insert('taken'), undefined, options)
    else if (kind === 'or-rollback')
      await tx.execute("insert or rollback into nested values (?, ?, 'taken')", [key, run])
    else if (kind === 'batch') {
      const pair = [insert(null), insert(null)]
      await tx.batch(pair, options)
      for (const { args } of pair) kept.add(args[0] as number)
    } else if (kind === 'savepoint' && depth < 2) {
      const inside = new Set<number>()
      const fails = random() < 0.5
      await tx.savepoint(async (inner) => {
        await perform(inner, run, depth + 1, inside)
        if (fails) throw new AbandonedError()
      })
      for (const each of inside) kept.add(each)
    } else if (kind === 'rows' && depth === 0 && hasCursors && random() < 0.3) await readAlone(tx)
    else {
      const only = insert(null)
      await tx.execute(only, undefined, options)
      kept.add(only.args[0] as number)
    }
  }

  for (let run = 0; run < count; run++) {
    const first = lastKey
    const kept = new Set<number>()
    const throws = random() < 0.15
    const isCommitted = await db
      .transaction(
        async (tx) => {
          await perform(tx, run, 0, kept)
          if (throws) throw new AbandonedError()
        },
        { mode: random() < 0.3 ? 'deferred' : 'immediate' },
      )
      .then(
        () => true,
        () => false,
      )
    if (isCommitted) committed += 1
    const { rows } = await direct.execute<{ key: number }>('select key from nested where run = ?', [run])
    const there = new Set(rows.map(({ key }) => key))
    const expected = isCommitted ? kept : new Set<number>()
    const wrong = [...there.symmetricDifference(expected)]
    if (wrong.length > 0)
      mistakes.push(
        `run ${run}, keys from ${first}: ${isCommitted ? 'committed' : 'not committed'}, wrong: ${wrong.join()}`,
      )
  }
  return { transactions: count, committed, mistakes }
}

/**
 * Reads rows on the handle. While another operation is running on it, this is a mistake, which is rejected without side effects.
 */
async function readAlone(tx: Transaction): Promise<void> {
  try {
    for await (const row of readRows(tx, 'select 1 as a union select 2')) if (row['a'] === 1) break
  } catch (error) {
    if (!isReading(error)) throw error
  }
}

const isReading = (error: unknown): boolean =>
  error instanceof TypeError && error.message.startsWith('rows are being read')
