import { type Client, DatabaseError, readRows, type Transaction } from '@batonsql/core'
import { pick } from '../../support/random.ts'

export interface NestedReport {
  readonly transactions: number
  readonly committed: number
  /** Rows without an acknowledgment, and acknowledged rows that are missing. */
  readonly violations: readonly string[]
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
export async function runNestedTransactions(
  db: Client,
  direct: Client,
  count: number,
  random: () => number,
  hasCursors: boolean,
): Promise<NestedReport> {
  await direct.batch([
    'drop table if exists nested',
    'create table nested (key integer primary key, run integer, taken text unique)',
    "insert into nested values (-1, -1, 'taken')",
  ])
  const violations: string[] = []
  let lastKey = 0
  let committed = 0

  /** Runs statements on one handle, and adds the acknowledged keys to `savedKeys`. */
  const runOperations = async (
    tx: Transaction,
    run: number,
    depth: number,
    savedKeys: Set<number>,
  ): Promise<void> => {
    const pending: Promise<unknown>[] = []
    for (let remaining = 1 + Math.floor(random() * 4); remaining > 0; remaining--) {
      const isRare = random() < 0.03
      const operation = runOperation(
        tx,
        isRare ? 'or-rollback' : pick(random, KINDS),
        run,
        depth,
        savedKeys,
      ).catch((error: unknown) => {
        const isExpected =
          error instanceof DatabaseError || error instanceof AbandonedError || isReadInProgress(error)
        if (!isExpected) throw error
      })
      if (random() < 0.6) pending.push(operation)
      else await operation
    }
    await Promise.all(pending)
  }

  const runOperation = async (
    tx: Transaction,
    kind: Kind,
    run: number,
    depth: number,
    savedKeys: Set<number>,
  ): Promise<void> => {
    const key = (lastKey += 1)
    const insert = (uniqueText: string | null) => ({
      sql: 'insert into nested values (?, ?, ?)',
      args: [(lastKey += 1), run, uniqueText],
    })
    const options = random() < 0.1 ? { signal: AbortSignal.abort(new AbandonedError()) } : {}
    if (kind === 'syntax') await tx.execute('selec', [], options)
    else if (kind === 'conflict') await tx.execute(insert('taken'), undefined, options)
    else if (kind === 'or-rollback')
      await tx.execute("insert or rollback into nested values (?, ?, 'taken')", [key, run])
    else if (kind === 'batch') {
      const statements = [insert(null), insert(null)]
      await tx.batch(statements, options)
      for (const { args } of statements) savedKeys.add(args[0] as number)
    } else if (kind === 'savepoint' && depth < 2) {
      const innerKeys = new Set<number>()
      const shouldFail = random() < 0.5
      await tx.savepoint(async (inner) => {
        await runOperations(inner, run, depth + 1, innerKeys)
        if (shouldFail) throw new AbandonedError()
      })
      for (const innerKey of innerKeys) savedKeys.add(innerKey)
    } else if (kind === 'rows' && depth === 0 && hasCursors && random() < 0.3) await readSomeRows(tx)
    else {
      const statement = insert(null)
      await tx.execute(statement, undefined, options)
      savedKeys.add(statement.args[0] as number)
    }
  }

  for (let run = 0; run < count; run++) {
    const firstKey = lastKey
    const savedKeys = new Set<number>()
    const shouldThrow = random() < 0.15
    const isCommitted = await db
      .transaction(
        async (tx) => {
          await runOperations(tx, run, 0, savedKeys)
          if (shouldThrow) throw new AbandonedError()
        },
        { mode: random() < 0.3 ? 'deferred' : 'immediate' },
      )
      .then(
        () => true,
        () => false,
      )
    if (isCommitted) committed += 1
    const { rows } = await direct.execute<{ key: number }>('select key from nested where run = ?', [run])
    const storedKeys = new Set(rows.map(({ key }) => key))
    const expected = isCommitted ? savedKeys : new Set<number>()
    const wrong = [...storedKeys.symmetricDifference(expected)]
    if (wrong.length > 0)
      violations.push(
        `run ${run}, keys from ${firstKey}: ${isCommitted ? 'committed' : 'not committed'}, wrong: ${wrong.join()}`,
      )
  }
  return { transactions: count, committed, violations }
}

/**
 * Reads rows on the handle. If another operation is running on it, this is misuse and is rejected without side
 * effects.
 */
async function readSomeRows(tx: Transaction): Promise<void> {
  try {
    for await (const row of readRows(tx, 'select 1 as a union select 2')) if (row['a'] === 1) break
  } catch (error) {
    if (!isReadInProgress(error)) throw error
  }
}

const isReadInProgress = (error: unknown): boolean =>
  error instanceof TypeError && error.message.startsWith('rows are being read')
