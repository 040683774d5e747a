import {
  type Client,
  DatabaseError,
  readRows,
  StreamError,
  type Transaction,
  TransportError,
} from '@batonsql/core'
import { pick } from './random.ts'

export interface StructuredAccount {
  readonly transactions: number
  readonly committed: number
  readonly savepoints: number
  /** Calls on handles that were over, which have to be refused. */
  readonly misuses: number
  /** What should never be. */
  readonly mistakes: readonly string[]
}

/** A transaction or savepoint: what is kept in it is kept when it, and all around it, come to a good end. */
interface Scope {
  readonly tx: Transaction
  readonly around: Scope | null
  readonly depth: number
  isOver: boolean
  isKept: boolean
}

class GivenUpError extends Error {}

const KINDS = [
  'insert',
  'insert',
  'insert',
  'batch',
  'conflict',
  'rows',
  'written rows',
  'savepoint',
  'savepoint',
  'savepoint',
  'together',
  'elsewhere',
] as const

/**
 * Runs transactions at random whose savepoints are nested and begun beside each other, whose calls are not always awaited,
 * fail together, and are made on handles of elsewhere and of handles that are over; then looks whether exactly those rows are
 * there that were acknowledged, in scopes that all came to a good end.
 */
export async function structureTransactions(
  db: Client,
  direct: Client,
  count: number,
  random: () => number,
  hasCursors: boolean,
): Promise<StructuredAccount> {
  await direct.batch([
    'drop table if exists structured',
    'create table structured (key integer primary key, run integer, taken text unique)',
    "insert into structured values (-1, -1, 'taken')",
  ])
  const mistakes: string[] = []
  let [lastKey, committed, savepoints, misuses] = [0, 0, 0, 0]

  const runOnce = async (run: number): Promise<void> => {
    const acknowledged: { key: number; scope: Scope }[] = []
    const scopes: Scope[] = []
    /** All that was begun, awaited or not. */
    const begun: Promise<unknown>[] = []
    const noteLoss = (error: unknown): void => {
      const isLost = error instanceof StreamError && error.code === 'TRANSACTION_LOST'
      if (isLost && !(error.cause instanceof TransportError)) mistakes.push(`run ${run}: ${error.message}`)
    }
    const track = <T>(promise: Promise<T>): Promise<T> => {
      begun.push(promise.catch(noteLoss))
      return promise
    }
    const insert = async (scope: Scope, keys: readonly number[], taken: string | null): Promise<void> => {
      const { isOver } = scope
      // on a handle of elsewhere a call may wait for the very one that awaits it
      const options = { timeoutMs: 150 }
      const statements = keys.map((key) => ({
        sql: 'insert into structured values (?, ?, ?)',
        args: [key, run, taken],
      }))
      if (statements.length === 1) await scope.tx.execute(statements[0]!, undefined, options)
      else await scope.tx.batch(statements, options)
      if (isOver) mistakes.push(`run ${run}: a handle that was over took ${keys.join()}`)
      for (const key of keys) acknowledged.push({ key, scope })
    }
    const newKey = (): number => (lastKey += 1)
    const open = (tx: Transaction, around: Scope | null): Scope => {
      const scope = { tx, around, depth: (around?.depth ?? -1) + 1, isOver: false, isKept: false }
      scopes.push(scope)
      return scope
    }
    /** Its callback returns. The client hears of that some microtasks later, and may take a call until then. */
    const end = (scope: Scope): void => {
      setImmediate(() => {
        scope.isOver = true
      })
    }
    const act = async (scope: Scope): Promise<void> => {
      const kind = pick(random, KINDS)
      if (kind === 'batch') await insert(scope, [newKey(), newKey()], null)
      else if (kind === 'conflict') await insert(scope, [newKey()], 'taken')
      else if (kind === 'rows' && hasCursors) {
        for await (const row of readRows(scope.tx, 'select 1 as a union select 2', [], { timeoutMs: 150 }))
          if (row['a'] === 1 && random() < 0.5) break
      } else if (kind === 'written rows' && hasCursors) {
        const key = newKey()
        const sql = 'insert into structured values (?, ?, null) returning key'
        for await (const row of readRows(scope.tx, sql, [key, run], { timeoutMs: 150 }))
          acknowledged.push({ key: row['key'] as number, scope })
      } else if (kind === 'savepoint' && scope.depth < 3) await nest(scope)
      else if (kind === 'together') {
        const calls = [track(act(scope)), track(act(scope))]
        if (random() < 0.5) calls.push(track(Promise.reject(new GivenUpError())))
        await Promise.all(calls)
      } else if (kind === 'elsewhere') {
        const other = pick(random, scopes)
        if (other.isOver) misuses += 1
        await insert(other, [newKey()], null)
      } else await insert(scope, [newKey()], null)
    }
    const perform = async (scope: Scope): Promise<void> => {
      for (let at = Math.floor(random() * 4); at >= 0; at--) {
        const done = track(act(scope))
        const way = random()
        if (way < 0.5) await done.catch(orThrow)
        else if (way < 0.75) await done
      }
    }
    const nest = async (around: Scope): Promise<void> => {
      savepoints += 1
      let scope: Scope | undefined
      const fails = random() < 0.3
      await around.tx.savepoint(
        async (tx) => {
          scope = open(tx, around)
          try {
            await perform(scope)
            if (fails) throw new GivenUpError()
          } finally {
            end(scope)
          }
        },
        { timeoutMs: 150 },
      )
      if (scope) scope.isKept = true
    }
    let root: Scope | undefined
    const isCommitted = await db
      .transaction(async (tx) => {
        root = open(tx, null)
        try {
          await perform(root)
        } finally {
          end(root)
        }
      })
      .then(
        () => true,
        (error: unknown) => {
          orThrow(error)
          return false
        },
      )
    if (root) root.isKept = isCommitted
    for (let settled = 0; settled < begun.length; ) {
      settled = begun.length
      await Promise.all(begun)
    }
    if (isCommitted) committed += 1
    const isKept = (scope: Scope | null): boolean => scope === null || (scope.isKept && isKept(scope.around))
    const expected = new Set(acknowledged.filter(({ scope }) => isKept(scope)).map(({ key }) => key))
    const { rows } = await direct.execute<{ key: number }>('select key from structured where run = ?', [run])
    const wrong = [...expected.symmetricDifference(new Set(rows.map(({ key }) => key)))]
    if (wrong.length > 0)
      mistakes.push(`run ${run}: ${isCommitted ? 'committed' : 'not committed'}, wrong: ${wrong.join()}`)
  }
  for (let run = 0; run < count; run++) await runOnce(run)
  return { transactions: count, committed, savepoints, misuses, mistakes }
}

/** What may come of it: errors of the client, its refusals of mistakes, and giving up. */
function orThrow(error: unknown): void {
  const isRefusal = error instanceof TypeError && /await is missing|rows are being read/.test(error.message)
  if (!(error instanceof DatabaseError || error instanceof GivenUpError || isRefusal)) throw error
}
