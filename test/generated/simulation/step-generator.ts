import type { Chooser } from './chooser.ts'
import type { CallPlan, Sql, Step } from './history.ts'
import { CALL_TIMEOUTS_MS, type Profile } from './profile.ts'

const VALID_SQL: readonly Sql[] = [
  'insert',
  'insert',
  'insert',
  'select',
  'returning',
  'commented select',
  'pragma',
]
const FAILING_SQL: readonly Sql[] = [
  'constraint',
  'unparsable',
  'missing table',
  'or fail',
  'or rollback',
  'child',
]

/** A transaction that does not need the write lock while it is idle. */
const STALLING_TRANSACTION: Step = {
  do: 'transaction',
  steps: [
    { do: 'execute', sql: 'unparsable', catches: true },
    { do: 'sleep', ms: 2_000 },
  ],
}

/** Generates the steps of programs. */
export class StepGenerator {
  readonly #choose: Chooser
  readonly #profile: Profile

  constructor(choose: Chooser, profile: Profile) {
    this.#choose = choose
    this.#profile = profile
  }

  /** Generates the plan of a call. */
  #call(): CallPlan {
    const { parallel, aborts, hasTimeouts } = this.#profile
    const wait = this.#choose.chance(parallel) ? this.#choose.pick(['later', 'never'] as const) : undefined
    return {
      ...(wait && { wait }),
      ...(this.#choose.chance(0.5) && { catches: true }),
      ...(hasTimeouts && this.#choose.chance(0.2) && { timeoutMs: this.#choose.pick(CALL_TIMEOUTS_MS) }),
      ...(aborts &&
        this.#choose.chance(0.25) &&
        (this.#choose.chance(0.6)
          ? { abortMs: this.#choose.pick([-1, 1, 2, 3, 4, 5, 20, 200, 2_000]) }
          : { abortTicks: this.#choose.int(12) })),
    }
  }

  #sql(): Sql {
    if (this.#profile.onlyReads) return 'select'
    if (this.#choose.chance(this.#profile.large)) return 'large'
    return this.#choose.chance(this.#profile.failing)
      ? this.#choose.pick(FAILING_SQL)
      : this.#choose.pick(VALID_SQL)
  }

  /** Returns a statement for a call that shares no request or response with calls that depend on it. */
  #standaloneSql(): Sql {
    const isUnreadable = !this.#profile.onlyReads && this.#choose.chance(this.#profile.failing / 4)
    return isUnreadable ? 'unreadable' : this.#sql()
  }

  #pause(): Step {
    return this.#choose.chance(0.5)
      ? { do: 'sleep', ms: this.#choose.pick(this.#profile.sleeps) }
      : { do: 'ticks', count: this.#choose.int(12) }
  }

  /** Generates calls that are made in the same tick. */
  #together(make: () => Step): Step {
    return {
      do: 'together',
      steps: Array.from({ length: 2 + this.#choose.int(3) }, make),
      ...(this.#choose.chance(0.5) && { catches: true }),
    }
  }

  #awaitCalls(): Step {
    return { do: 'await', ...(this.#choose.chance(0.5) && { catches: true }) }
  }

  /** Generates a step that a program performs with a client. */
  clientStep(): Step {
    if (this.#profile.onlyReads && this.#choose.chance(0.4)) return this.#stream()
    const roll = this.#choose.int(100)
    if (roll < 18) return { do: 'execute', sql: this.#standaloneSql(), ...this.#call() }
    if (roll < 22) return this.#together(() => this.clientStep())
    if (roll < 27) return this.#batch()
    if (roll < 30) return this.#optimistic()
    if (roll < 62) return this.#transaction()
    if (roll < 70) return this.#rows(true)
    if (roll < 82) return this.#stream()
    if (roll < 85) return this.#script()
    if (roll < 86) return { do: 'health', ...this.#call() }
    if (roll < 93) return this.#pause()
    if (roll < 96 && this.#profile.closes)
      return {
        do: 'close',
        ...(this.#choose.chance(0.5) && { drainMs: this.#choose.pick([1, 5, 100, 10_000]) }),
        ...(this.#choose.chance(0.5) && { wait: 'never' as const }),
        catches: true,
      }
    return this.#awaitCalls()
  }

  #script(): Step {
    const sql = this.#choose.list(3, () => this.#sql())
    const from = this.#choose.int(sql.length)
    const to = this.#choose.chance(0.5) ? sql.length : from + this.#choose.int(sql.length - from + 1)
    const transactionRange = this.#choose.chance(0.5) ? ([0, sql.length] as const) : ([from, to] as const)
    return { do: 'script', sql, ...(this.#choose.chance(0.7) && { transactionRange }), ...this.#call() }
  }

  #batch(): Step {
    const mode = this.#choose.pick(this.#profile.modes)
    return {
      do: 'batch',
      sql: this.#choose.list(3, () => this.#sql()),
      ...(mode && { mode }),
      ...this.#call(),
    }
  }

  #optimistic(): Step {
    return {
      do: 'optimistic',
      sql: this.#choose.list(3, () => this.#sql()),
      reads: this.#choose.int(3),
      maxConflicts: this.#choose.int(3),
      ...(this.#choose.chance(0.3) && { pauseMs: this.#choose.pick([1, 2, 5]) }),
      ...(this.#choose.chance(0.3) && { fallback: 'none' as const }),
      ...this.#call(),
    }
  }

  #rows(isOutside: boolean): Step {
    const sql =
      this.#profile.onlyReads || this.#choose.chance(0.6)
        ? 'select'
        : this.#choose.chance(0.8)
          ? 'returning'
          : this.#sql()
    const hasSteps = this.#choose.chance(0.15)
    return {
      do: 'rows',
      sql,
      ...(this.#choose.chance(0.4) && {
        take: 1 + this.#choose.int(3),
        ...(this.#choose.chance(0.4) && { throws: true }),
      }),
      ...(hasSteps && {
        steps: this.#choose.list(2, () =>
          isOutside || this.#profile.misuses ? this.#loopStep() : this.#pause(),
        ),
      }),
      ...this.#call(),
    }
  }

  #loopStep(): Step {
    return { do: 'execute', sql: this.#choose.pick(['insert', 'select']), ...this.#call() }
  }

  #transaction(): Step {
    if (this.#profile.hasOrms) return this.#ormTransaction()
    if (this.#profile.stalls && this.#choose.chance(0.7)) return STALLING_TRANSACTION
    const mode = this.#choose.pick(this.#profile.modes)
    const isFlat = this.#choose.chance(0.3)
    return {
      do: 'transaction',
      ...(mode && { mode }),
      ...(this.#choose.chance(0.15) && { retry: 1 + this.#choose.int(3) }),
      steps: this.#choose.chance(0.03)
        ? []
        : this.#choose.chance(0.04)
          ? this.#idleAfterRows()
          : this.#choose.list(5, () => this.#transactionStep(isFlat ? -1 : 2)),
      ...(this.#choose.chance(0.12) && { throws: true }),
      ...this.#call(),
    }
  }

  /** Generates a transaction that does nothing for some time after it has read rows. */
  #idleAfterRows(): Step[] {
    const ms = this.#choose.pick([20, 200, 2_000, 6_000])
    return [this.#rows(false), { do: 'sleep', ms }, { do: 'execute', sql: this.#sql(), ...this.#call() }]
  }

  #ormTransaction(): Step {
    const orm = this.#choose.pick([
      'kysely',
      'kysely',
      'kysely on a connection',
      'controlled kysely',
      'drizzle',
    ] as const)
    return {
      do: 'transaction',
      orm,
      steps: this.#choose.list(4, () => this.#ormStep(orm === 'drizzle' ? 2 : 0)),
      ...(this.#choose.chance(0.3) && { throws: true }),
      ...(this.#choose.chance(0.5) && { catches: true }),
    }
  }

  #ormStep(depth: number): Step {
    const wait = this.#choose.chance(0.4) ? this.#choose.pick(['later', 'never'] as const) : undefined
    const call = { ...(wait && { wait }), ...(this.#choose.chance(0.5) && { catches: true }) }
    const roll = this.#choose.int(100)
    if (roll < 40) return { do: 'execute', sql: this.#sql(), ...call }
    if (roll < 60) {
      const take = this.#choose.chance(0.4) && { take: 1, ...(this.#choose.chance(0.4) && { throws: true }) }
      return { do: 'rows', sql: this.#choose.pick(['select', 'returning']), ...take, ...call }
    }
    if (roll < 75 && depth > 0)
      return {
        do: 'savepoint',
        steps: this.#choose.list(3, () => this.#ormStep(depth - 1)),
        ...(this.#choose.chance(0.3) && { throws: true }),
        ...call,
      }
    return roll < 90 ? this.#pause() : this.#awaitCalls()
  }

  /** @param depth how deep savepoints may be nested; -1: they are created with SQL statements */
  #transactionStep(depth: number): Step {
    const roll = this.#choose.int(100)
    if (roll < 34) return { do: 'execute', sql: this.#sql(), ...this.#call() }
    if (roll < 40) return this.#together(() => this.#transactionStep(depth))
    if (roll < 47) return { do: 'batch', sql: this.#choose.list(3, () => this.#sql()), ...this.#call() }
    if (roll < 60) return this.#rows(false)
    if (roll < 76)
      return depth > 0
        ? this.#savepoint(depth)
        : depth < 0
          ? {
              do: 'execute',
              sql: this.#choose.pick(['savepoint p', 'release p', 'rollback to p']),
              ...this.#call(),
            }
          : this.#pause()
    if (roll < 79) return { do: 'rollback', ...this.#call() }
    if (roll < 82) return this.#profile.misuses ? this.#misuse(depth) : this.#callOnClient()
    if (roll < 90) return this.#pause()
    if (roll < 93) return { do: 'execute', sql: 'parent', ...this.#call() }
    return this.#awaitCalls()
  }

  #savepoint(depth: number): Step {
    return {
      do: 'savepoint',
      steps: this.#choose.chance(0.05) ? [] : this.#choose.list(4, () => this.#transactionStep(depth - 1)),
      ...(this.#choose.chance(0.25) && { throws: true }),
      ...this.#call(),
    }
  }

  /** Generates calls on the client in a transaction's callback that do not wait for the transaction, or are not awaited. */
  #callOnClient(): Step {
    const read: Step = { do: 'execute', sql: this.#choose.pick(['select', 'commented select']), on: 'client' }
    const write: Step = { do: 'execute', sql: 'insert', on: 'client', wait: 'never' }
    return this.#choose.pick<Step>([
      read,
      write,
      { do: 'together', steps: [read, write] },
      { do: 'rows', sql: 'select', on: 'client' },
    ])
  }

  /** Generates a step that uses a handle in the wrong place. */
  #misuse(depth: number): Step {
    const call = { ...this.#call(), timeoutMs: this.#choose.pick([20, 100]) }
    if (this.#choose.chance(0.3))
      return { do: 'execute', sql: this.#choose.pick(['begin', 'commit']), catches: true }
    if (this.#choose.chance(0.4)) return { do: 'execute', sql: this.#sql(), on: 'client', ...call }
    return depth > 0
      ? { do: 'execute', sql: this.#sql(), on: 'outer', ...call }
      : { do: 'rows', sql: 'select', on: 'client', ...call }
  }

  #stream(): Step {
    return {
      do: 'stream',
      steps: this.#choose.chance(0.06) ? this.#endTwice() : this.#choose.list(7, () => this.#streamStep()),
      ...this.#call(),
    }
  }

  /** Generates a transaction that is ended again while its end is in flight. */
  #endTwice(): Step[] {
    const end = (): Step => ({
      do: this.#choose.pick(['commit', 'commit', 'rollback']),
      ...this.#call(),
      catches: true,
    })
    return [
      this.#begin(),
      { do: 'execute', sql: 'insert' },
      { do: 'commit', wait: 'later' },
      end(),
      this.#pause(),
      end(),
      this.#streamStep(),
      this.#awaitCalls(),
    ]
  }

  #streamStep(): Step {
    const roll = this.#choose.int(100)
    if (roll < 21) return { do: 'execute', sql: this.#sql(), ...this.#call() }
    if (roll < 25) return this.#together(() => this.#streamStep())
    if (roll < 45) return this.#begin()
    if (roll < 55) return { do: 'commit', ...this.#call(), catches: true }
    if (roll < 59) return { do: 'rollback', ...this.#call(), catches: true }
    if (roll < 64) return { do: 'batch', sql: this.#choose.list(3, () => this.#sql()), ...this.#call() }
    if (roll < 68) {
      const sql = this.#choose.list(3, () => (this.#choose.chance(0.1) ? 'savepoint p' : this.#sql()))
      return { do: 'chain', sql, ...this.#call(), catches: true }
    }
    if (roll < 74)
      return {
        do: this.#choose.pick(['mark', 'mark', 'undo', 'forget']),
        name: this.#choose.pick(['q', 'immediate_report']),
      }
    if (roll < 80) return this.#rows(false)
    if (roll < 86)
      return {
        do: 'execute',
        sql: this.#choose.pick([
          'begin',
          'commit',
          'commit; insert',
          'rollback',
          'savepoint p',
          'release p',
          'rollback to p',
          'parent',
        ]),
        ...this.#call(),
        catches: true,
      }
    if (roll < 88) return { do: 'close stream', ...this.#call() }
    if (roll < 94) return this.#pause()
    return this.#awaitCalls()
  }

  #begin(): Step {
    const mode = this.#choose.pick(this.#profile.modes)
    return { do: 'begin', ...(mode && { mode }) }
  }
}
