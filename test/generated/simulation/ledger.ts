import { type DatabaseOutcome, findDatabaseError } from '@batonsql/core'
import type { CallPlan, Sql } from './history.ts'
import { RecordedErrors } from './recorded-errors.ts'
import type { World } from './world.ts'

/** The kind of a call. */
export type CallKind =
  | 'execute'
  | 'batch'
  | 'optimistic'
  | 'chain'
  | 'script'
  | 'rows'
  | 'transaction'
  | 'savepoint'
  | 'begin'
  | 'commit'
  | 'rollback'
  | 'mark'
  | 'undo'
  | 'forget'
  | 'close stream'
  | 'close'
  | 'health'

/** A handle that calls are made on: a client, a transaction (each attempt), a savepoint, or a stream. */
export interface Scope {
  readonly id: number
  readonly kind: 'client' | 'transaction' | 'savepoint' | 'stream'
  readonly client: number
  readonly parent: Scope | null
  /** The transaction or stream that it is part of; itself, if it is one. */
  readonly root: Scope
  readonly startedAt: number
  /** Whether it belongs to a query builder. */
  readonly isOrm: boolean
  readonly calls: Call[]
  /** The turn of the event loop in which it ended; Infinity before. */
  endedAt: number
  /** Whether `rollback()` was called on it. */
  isRolledBack: boolean
  /** The error that its callback threw; undefined if it returned. */
  thrown: unknown
  hasThrown: boolean
  /** The `expiresAt` of its handle when it ended. */
  expiresAt: number | null
}

/** A call of the client's public API, and its outcome. */
export interface Call {
  readonly id: number
  readonly operation: CallKind
  readonly scope: Scope
  readonly plan: CallPlan
  readonly sql: readonly Sql[]
  /** The unique number that each statement writes; null if it writes none. */
  readonly tags: readonly (number | null)[]
  readonly name: string
  readonly at: number
  readonly turn: number
  /** The scopes of its callback: attempts of a transaction, or a savepoint. */
  readonly inner: Scope[]
  /** The reason with which it would be aborted. */
  reason: Error | null
  isAborted: boolean
  abortedAt: number
  /** The error with which the program left the loop over its rows, unrelated to the statement. */
  loopError: unknown
  /** The rows that the last attempt of an optimistic transaction has read; null if it has read none. */
  seen: readonly number[] | null
  /** A misuse by the program, which the client rejects with a TypeError. */
  mistake: string | null
  state: 'pending' | 'ok' | 'failed'
  settledAt: number
  settledTurn: number
  value: unknown
  error: unknown
}

/** Records all calls of a history. */
export class Ledger {
  readonly calls: Call[] = []
  readonly scopes: Scope[] = []
  readonly errors = new RecordedErrors()
  readonly #world: World
  pending = 0

  constructor(world: World) {
    this.#world = world
  }

  openScope(kind: Scope['kind'], client: number, parent: Scope | null, isOrm = false): Scope {
    const scope: Omit<Scope, 'root'> & { root?: Scope } = {
      id: this.scopes.length,
      kind,
      client,
      parent,
      startedAt: this.#world.now,
      isOrm,
      calls: [],
      endedAt: Infinity,
      isRolledBack: false,
      thrown: undefined,
      hasThrown: false,
      expiresAt: null,
    }
    scope.root = parent && kind === 'savepoint' ? parent.root : (scope as Scope)
    this.scopes.push(scope as Scope)
    return scope as Scope
  }

  recordCall(
    scope: Scope,
    operation: CallKind,
    plan: CallPlan = {},
    {
      sql = [],
      tags = [],
      name = '',
    }: { sql?: readonly Sql[]; tags?: readonly (number | null)[]; name?: string } = {},
  ): Call {
    const call: Call = {
      id: this.calls.length,
      operation,
      scope,
      plan,
      sql,
      tags,
      name,
      at: this.#world.now,
      turn: this.#world.turn,
      inner: [],
      reason: null,
      isAborted: false,
      abortedAt: Infinity,
      loopError: undefined,
      seen: null,
      mistake: null,
      state: 'pending',
      settledAt: Infinity,
      settledTurn: Infinity,
      value: undefined,
      error: undefined,
    }
    this.calls.push(call)
    scope.calls.push(call)
    this.pending += 1
    return call
  }

  succeed(call: Call, value: unknown): void {
    this.#settle(call, 'ok')
    call.value = value
  }

  fail(call: Call, error: unknown): void {
    this.#settle(call, 'failed')
    call.error = error
    this.errors.record(error, true)
  }

  #settle(call: Call, state: Call['state']): void {
    call.state = state
    call.settledAt = this.#world.now
    call.settledTurn = this.#world.turn
    this.pending -= 1
  }
}

/** Returns the outcome that the caller of a failed call received. */
export function getOutcome({ error, isAborted, loopError, reason, operation }: Call): DatabaseOutcome {
  if (loopError !== undefined && loopError === error) return 'unknown'
  const databaseError = findDatabaseError(error)
  if (databaseError) return databaseError.outcome
  // in a script, or a chain that takes several requests, an error from `authToken` does not show the outcome of earlier requests
  if (operation === 'script' || operation === 'chain') return 'unknown'
  // a signal's reason does not show the outcome; an error thrown by a callback ended its transaction
  return isAborted && error === reason ? 'unknown' : 'not_applied'
}
