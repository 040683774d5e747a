import { type Client, DatabaseError } from '@batonsql/core'
import { pick } from './random.ts'

/** What one statement of a transaction does; all but `insert` fail, or end the transaction on the server. */
type Act = 'insert' | 'constraint' | 'syntax' | 'or-rollback' | 'raise-rollback'

/** A transaction, as far as this test needs it. */
interface Statements {
  execute(sql: string, args: number[]): Promise<unknown>
}

/** A client under test; not only ours can be. */
export interface Tearable {
  transaction(callback: (tx: Statements) => Promise<void>): Promise<void>
}

export interface TornAccount {
  readonly transactions: number
  readonly committed: number
  /** Transactions that the server ended by itself. */
  readonly endedByServer: number
  /** Rows of transactions that did not commit, or missing from ones that did. */
  readonly leaks: readonly string[]
}

/**
 * Runs transactions at random, in which the server rolls back by itself, with errors swallowed and thrown, statements one
 * after the other and together; then looks whether each left all of its rows or none.
 */
export async function tearTransactions(
  db: Tearable,
  direct: Client,
  count: number,
  random: () => number,
): Promise<TornAccount> {
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
    const acts = Array.from({ length: 2 + Math.floor(random() * 7) }, () =>
      pick<Act>(random, [
        'insert',
        'insert',
        'insert',
        'insert',
        'constraint',
        'syntax',
        'or-rollback',
        'raise-rollback',
      ]),
    )
    const together = random() < 0.4
    const throws = random() < 0.2
    const done: number[] = []
    const perform = async (tx: Statements, act: Act): Promise<void> => {
      const own = (part += 1)
      await tx.execute(...statementFor(act, run, own)).then(
        () => act === 'insert' && done.push(own),
        (error: unknown) => {
          // a mistake of this test must not pass for a refusal
          if (error instanceof TypeError || error instanceof RangeError) throw error
        },
      )
    }
    const outcome = await db
      .transaction(async (tx) => {
        if (together) await Promise.all(acts.map((act) => perform(tx, act)))
        else for (const act of acts) await perform(tx, act)
        if (throws) throw new Error('given up')
      })
      .then(
        () => 'committed',
        (error: unknown) => (error instanceof DatabaseError ? error.outcome : 'not_applied'),
      )
    if (acts.some((act) => act.endsWith('rollback'))) endedByServer += 1
    const { rows } = await direct.execute<{ part: number }>(
      'select part from torn where run = ? order by part',
      [run],
    )
    const there = rows.map((row) => row.part).join()
    const all = done.toSorted((a, b) => a - b).join()
    if (outcome === 'committed') committed += 1
    const isWhole =
      outcome === 'committed'
        ? there === all
        : outcome === 'unknown'
          ? there === all || there === ''
          : there === ''
    if (!isWhole)
      leaks.push(
        `run ${run} (${acts.join(' ')}${together ? ', together' : ''}): ${outcome}, there are [${there}] of [${all}]`,
      )
  }
  return { transactions: count, committed, endedByServer, leaks }
}

function statementFor(act: Act, run: number, part: number): [string, number[]] {
  switch (act) {
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
    default:
      return act satisfies never
  }
}
