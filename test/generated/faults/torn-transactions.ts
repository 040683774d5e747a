import { type Client, DatabaseError } from '@batonsql/core'
import { pick } from '../../support/random.ts'

/** A step of a transaction. All statements but `insert` fail, or end the transaction on the server. */
type Action = 'insert' | 'constraint' | 'syntax' | 'or-rollback' | 'raise-rollback' | 'full' | 'disruption'

const ACTIONS: readonly Action[] = [
  'insert',
  'insert',
  'insert',
  'insert',
  'constraint',
  'syntax',
  'or-rollback',
  'raise-rollback',
]

/** Larger than a database under test may be. */
const TOO_LARGE_BYTES = 4_000_000

/** The size limit to set, so that SQLITE_FULL occurs. */
export const SIZE_LIMIT_BYTES = 2_000_000

/** The parts of a transaction that this test needs. */
interface Statements {
  execute(sql: string, args: number[]): Promise<unknown>
}

/** A client under test, not necessarily ours. */
export interface TransactionClient {
  transaction(callback: (tx: Statements) => Promise<void>): Promise<void>
}

export interface TornReport {
  readonly transactions: number
  readonly committed: number
  /** Transactions that the server ended on its own. */
  readonly endedByServer: number
  /** Rows of transactions that did not commit, and rows missing from ones that did. */
  readonly leaks: readonly string[]
}

export interface TornOptions {
  /** Whether the database has the limit of {@link SIZE_LIMIT_BYTES}. */
  readonly isLimited?: boolean
  /** Called once in each transaction, for example to restart the server. */
  readonly disrupt?: (() => Promise<unknown>) | undefined
}

/**
 * Runs random transactions, some of which the server rolls back on its own. Errors are swallowed or rethrown, and statements run
 * one after another or concurrently. Then checks that each transaction left all of its rows or none.
 */
export async function findTornTransactions(
  db: TransactionClient,
  direct: Client,
  count: number,
  random: () => number,
  { isLimited = false, disrupt }: TornOptions = {},
): Promise<TornReport> {
  const choices = isLimited ? [...ACTIONS, 'full' as const] : ACTIONS
  await direct.batch([
    'drop table if exists torn',
    'create table torn (run integer, part integer unique)',
    "create trigger torn_no before insert on torn when new.part = -2 begin select raise(rollback, 'no'); end",
    'insert into torn values (-1, -1)',
  ])
  let part = 0
  let committed = 0
  let endedByServer = 0
  const leaks: string[] = []
  for (let run = 0; run < count; run++) {
    const actions = Array.from({ length: 2 + Math.floor(random() * 7) }, () => pick(random, choices))
    // among harmless statements, so that only this one ends the transaction
    if (disrupt)
      actions.splice(0, actions.length, 'insert', 'insert', 'disruption', ...actions.slice(2), 'insert')
    const isConcurrent = random() < 0.4
    const shouldThrow = random() < 0.2
    const insertedParts: number[] = []
    const perform = async (tx: Statements, action: Action): Promise<void> => {
      const newPart = (part += 1)
      if (action === 'disruption') return void (await disrupt?.())
      await tx.execute(...getStatement(action, run, newPart)).then(
        () => action === 'insert' && insertedParts.push(newPart),
        (error: unknown) => {
          // a bug in this test must not be mistaken for a rejection
          if (error instanceof TypeError || error instanceof RangeError) throw error
        },
      )
    }
    const outcome = await db
      .transaction(async (tx) => {
        // the disruption begins after the statements before it have ended, even on a slow machine
        const disruptionIndex = actions.indexOf('disruption')
        const groups =
          disruptionIndex < 0
            ? [actions]
            : [
                actions.slice(0, disruptionIndex),
                actions.slice(disruptionIndex, disruptionIndex + 1),
                actions.slice(disruptionIndex + 1),
              ]
        if (isConcurrent)
          for (const group of groups) await Promise.all(group.map((action) => perform(tx, action)))
        else for (const action of actions) await perform(tx, action)
        if (shouldThrow) throw new Error('aborted')
      })
      .then(() => 'committed', getOutcome)
    if (actions.some((action) => /rollback|full|disrupt/.test(action))) endedByServer += 1
    const { rows } = await direct.execute<{ part: number }>(
      'select part from torn where run = ? order by part',
      [run],
    )
    const storedParts = rows.map((row) => row.part).join()
    const expectedParts = insertedParts.toSorted((a, b) => a - b).join()
    if (outcome === 'committed') committed += 1
    const isAtomic =
      outcome === 'committed'
        ? storedParts === expectedParts
        : outcome === 'unknown'
          ? storedParts === expectedParts || storedParts === ''
          : storedParts === ''
    if (!isAtomic)
      leaks.push(
        `run ${run} (${actions.join(' ')}${isConcurrent ? ', concurrent' : ''}): ${outcome}, [${storedParts}] of [${expectedParts}] exist`,
      )
  }
  return { transactions: count, committed, endedByServer, leaks }
}

/** Returns the outcome of a transaction from its error; in ORMs, our error is the cause of theirs. */
function getOutcome(error: unknown): string {
  if (error instanceof DatabaseError) return error.outcome
  return error instanceof Error && error.cause ? getOutcome(error.cause) : 'not_applied'
}

function getStatement(action: Exclude<Action, 'disruption'>, run: number, part: number): [string, number[]] {
  switch (action) {
    case 'insert':
      return ['insert into torn values (?, ?)', [run, part]]
    case 'constraint':
      return ['insert into torn values (?, -1)', [run]]
    case 'syntax':
      return ['insert into torn valued (?, ?)', [run, part]]
    case 'or-rollback':
      return ['insert or rollback into torn values (?, -1)', [run]]
    case 'raise-rollback':
      return ['insert into torn values (?, -2)', [run]]
    case 'full':
      return [`insert into torn values (?, zeroblob(${TOO_LARGE_BYTES}))`, [run]]
    default:
      return action satisfies never
  }
}
