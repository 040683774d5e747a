import {
  ConflictError,
  DatabaseError,
  HttpError,
  ProtocolError,
  SqlError,
  StreamError,
  TransportError,
} from '@batonsql/core'
import { describeCall } from './check-rows.ts'
import type { ClientPlan, History, Sql } from './history.ts'
import type { Call, Scope } from './ledger.ts'
import type { Network } from './network.ts'
import { PlannedError } from './planned-error.ts'
import type { Program } from './program.ts'
import { getProgramSlowness } from './slowness.ts'

/** Faults that can occur in a history, apart from those of its statements. */
interface Hazards {
  /** Whether requests or the server failed. */
  readonly isFaulty: boolean
  /** How long programs slept or blocked themselves, in ms. Others may have waited for them. */
  readonly slowMs: number
}

const SQL_CODES: Partial<Record<Sql, readonly string[]>> = {
  constraint: ['SQLITE_CONSTRAINT'],
  'or rollback': ['SQLITE_CONSTRAINT'],
  'or fail': ['SQLITE_CONSTRAINT'],
  unparsable: ['SQL_PARSE_ERROR'],
  'missing table': ['SQLITE_UNKNOWN'],
  child: ['SQLITE_CONSTRAINT'],
  'rollback to p': ['SQLITE_UNKNOWN'],
  'release p': ['SQLITE_UNKNOWN'],
}

/** Shorter delays neither end a transaction nor exceed the time in which an aborted request has to finish. */
export const QUICK_MS = 800

/** Returns how long programs slept or blocked themselves, in ms. */
export function getSlowness({ ledger }: Program, history: History): number {
  const waitsForItself = ledger.calls.some(({ mistake }) => mistake !== null)
  return getProgramSlowness(history) + (waitsForItself ? 60_000 : 0)
}

/** Finds errors that nothing in the history explains. */
export function checkErrors(program: Program, network: Network, history: History): string[] {
  const isFaulty = network.faultCount > 0 || (history.events ?? []).length > 0
  const slowMs = getSlowness(program, history)
  const checker = new ErrorChecker(program, history, { isFaulty, slowMs })
  return program.ledger.calls.flatMap((call) => {
    const problem = call.state === 'failed' ? checker.findProblem(call) : null
    return problem === null ? [] : [`${describeCall(call)}: ${problem}: ${String(call.error)}`]
  })
}

/** Returns whether a call is a transaction or only reads. */
const isPlainRead = ({ operation, sql }: Call): boolean =>
  operation === 'transaction' ||
  (operation === 'execute' && sql.every((text) => text === 'large' || text === 'select'))

/** Whether an error is the one that a callback threw, or has the outcome of the whole transaction instead of its own. */
const isWholeError = (error: unknown, thrown: unknown): boolean =>
  error === thrown ||
  (error instanceof DatabaseError &&
    thrown instanceof DatabaseError &&
    error.stack === thrown.stack &&
    error.outcome === 'not_applied')

const isInside = ({ parent }: Scope, scope: Scope): boolean =>
  parent !== null && (parent === scope || isInside(parent, scope))

class ErrorChecker {
  readonly #program: Program
  readonly #history: History
  readonly #hazards: Hazards

  constructor(program: Program, history: History, hazards: Hazards) {
    this.#program = program
    this.#history = history
    this.#hazards = hazards
  }

  /** Returns why the error of a call is not allowed; null if it is. */
  findProblem(call: Call): string | null {
    const { error } = call
    // a signal of a transaction or savepoint applies to the calls inside it
    const surrounding = this.#findSurrounding(call)
    if ([call, ...surrounding].some(({ isAborted, reason }) => isAborted && error === reason)) return null
    // query builders have their own errors, and wrap those of the client
    if (call.scope.isOrm || call.inner.some(({ isOrm }) => isOrm) || 'orm' in call.plan) return null
    // an error from the loop over its rows
    if (call.loopError !== undefined && call.loopError === error) return null
    if (error instanceof PlannedError) return this.#checkPlannedError(call)
    const lastScope = call.inner.at(-1)
    // an error from its callback is checked where it was thrown
    if (lastScope?.hasThrown && isWholeError(error, lastScope.thrown)) return null
    if (lastScope?.hasThrown && call.operation === 'transaction' && !(error instanceof DatabaseError))
      return 'not the error thrown by its callback'
    const isRefused = /the server ignores the conditions of steps/.test(String(error))
    if (isRefused && this.#history.server.ignoresConditions) return null
    if (error instanceof ConflictError) return 'fallback' in call.plan ? null : 'it has a fallback'
    if (error instanceof SqlError) return this.#checkSqlError(call, error)
    if (error instanceof StreamError) return this.#checkStreamError(call, error)
    if (error instanceof TransportError) return this.#checkTransportError(call, error)
    if (error instanceof HttpError) {
      const { clients, server } = this.#history
      // the client could not detect what the server supports, or had no time to do so
      const hasTimeLimit = call.isAborted || /[tT]imeoutMs/.test(JSON.stringify([call.plan, clients]))
      const isUnknown = server.isExecuteOnly && (hasTimeLimit || clients.some(({ token }) => token?.fails))
      const isRejected = isUnknown || call.sql.includes('unreadable')
      return this.#hazards.isFaulty || isRejected ? null : 'no request was rejected in transit'
    }
    if (error instanceof ProtocolError) return this.#hazards.isFaulty ? null : 'all responses were valid'
    if (error instanceof TypeError) return this.#checkTypeError(call, error)
    if (error instanceof SyntaxError && call.sql[0] === 'commit; insert') return null
    if (error instanceof RangeError || error instanceof SyntaxError) return 'nothing was out of range'
    return 'not a documented error'
  }

  /** Returns the transactions and savepoints whose callbacks have made a call. */
  #findSurrounding({ scope }: Call): Call[] {
    return this.#program.ledger.calls.filter(({ inner }) =>
      inner.some((own) => own === scope || own === scope.root || isInside(scope, own)),
    )
  }

  #getPlan(call: Call): ClientPlan {
    return this.#history.clients[call.scope.client] ?? {}
  }

  #isClosed({ scope, settledTurn }: Call): boolean {
    return (this.#program.clientScopes[scope.client] as Scope).calls.some(
      ({ operation, turn }) => operation === 'close' && turn <= settledTurn,
    )
  }

  /** Checks that an error thrown by the program rejects only the calls that run its callbacks, or that need its token. */
  #checkPlannedError({ operation, error, scope }: Call): string | null {
    if ((error as Error).message === 'no token' && this.#history.clients[scope.client]?.token) return null
    const mayReject = operation === 'transaction' || operation === 'savepoint'
    return mayReject ? null : 'an error of another call'
  }

  #checkSqlError(call: Call, { code }: SqlError): string | null {
    const { sql, operation, scope } = call
    if (this.#hazards.isFaulty) return null
    if (sql.some((text) => SQL_CODES[text]?.includes(code))) return null
    const isLarge = sql.filter((text) => text === 'large').length > 1
    if (isLarge && code === 'RESPONSE_TOO_LARGE') return null
    const isTransactionEnd =
      operation === 'transaction' ||
      operation === 'commit' ||
      (operation === 'execute' && sql[0] === 'commit')
    const calls = operation === 'transaction' ? this.#program.ledger.calls : scope.root.calls
    if (isTransactionEnd && code === 'SQLITE_CONSTRAINT' && calls.some((call) => call.sql.includes('child')))
      return null
    // a stream's savepoint that does not exist
    const isMissingSavepoint = scope.calls.some(
      (call) => call.operation === 'undo' || call.operation === 'forget',
    )
    if (isMissingSavepoint && code === 'SQLITE_UNKNOWN') return null
    // a deferred transaction that writes after another wrote, and statements on an older snapshot
    const isDeferred = /"mode":"|"transactionRange"/.test(JSON.stringify(this.#history))
    if (code === 'SQLITE_BUSY' && isDeferred) return null
    // neither a cursor nor a request after an executed statement is retried
    const mayBeRejected = operation === 'rows' || (/^(chain|script)$/.test(operation) && sql.length > 1)
    const isTursodb = this.#history.server.isTursodb === true
    // calls that share a request share the earliest time limit, also those of a nested savepoint
    const sharing = this.#program.ledger.calls.filter((other) => other.scope.root === scope.root)
    const mayHaveTimedOut = [call, ...sharing].some((waiting) => this.#mayHaveTimedOut(waiting))
    if (code === 'SQLITE_BUSY' && isTursodb && (mayBeRejected || mayHaveTimedOut)) return null
    return 'none of its statements fails with this code'
  }

  #checkStreamError(call: Call, { code, message }: StreamError): string | null {
    if (this.#hazards.isFaulty || this.#isClosed(call)) return null
    const { root } = call.scope.kind === 'client' ? (call.inner.at(-1) ?? call.scope) : call.scope
    const calls = this.#program.ledger.calls.filter(
      ({ scope, inner }) => scope.root === root || inner.includes(root),
    )
    if (code === 'STREAM_CLOSED') {
      const isEnded = call.scope.endedAt < Infinity || this.#hasParentEnded(call.scope)
      const hasLimit = this.#findSurrounding(call).some(
        ({ isAborted, plan }) => isAborted || plan.timeoutMs !== undefined,
      )
      return isEnded || hasLimit || call.inner.some(({ endedAt }) => endedAt < Infinity)
        ? null
        : 'its handle had not ended'
    }
    const waitedMs = call.settledAt - root.startedAt
    if (code === 'TRANSACTION_EXPIRED' || /without a request/.test(message)) {
      const minMs = Math.min(5_000, this.#getPlan(call).transactionTimeoutMs ?? 5_000)
      if (waitedMs < minMs) return `only ${waitedMs} ms had passed`
      // a stream that could not be closed without a token holds the lock until it expires
      const hasNoToken = this.#history.clients.some(({ token }) => token?.fails)
      return this.#hazards.slowMs > QUICK_MS || minMs < 5_000 || hasNoToken ? null : 'nothing was slow'
    }
    const mayBeAborted = calls.some(({ isAborted, plan }) => isAborted || plan.timeoutMs !== undefined)
    const hasShortTimeout = this.#getPlan(call).requestTimeoutMs !== undefined
    const endsOnItsOwn = calls.some(({ sql }) =>
      sql.some((text) => text === 'or rollback' || text.endsWith(' p')),
    )
    const isBusy = this.#history.tasks.length > 1 && JSON.stringify(this.#history).includes('"mode":"')
    const isUndone = calls.some(({ operation }) => operation === 'undo' || operation === 'forget')
    // reads that share a request are retried one by one
    const isLarge = calls.some(({ sql }) => sql.includes('large')) && !calls.every(isPlainRead)
    const isClosed = calls.some(({ operation, at }) => operation === 'close stream' && at <= call.settledAt)
    // calls after a COMMIT that is rejected, as by a deferred constraint, or not sent, were meant to run outside the transaction
    const hasCommitFailed = calls.some(({ operation, state }) => operation === 'commit' && state !== 'ok')
    // a call that takes several requests gets a token for each
    const { isExecuteOnly, isOld, hasNoCursor } = this.#history.server
    const hasNoToken =
      (isExecuteOnly || isOld || hasNoCursor) && this.#history.clients.some(({ token }) => token?.fails)
    return mayBeAborted ||
      (hasCommitFailed && message.includes('the COMMIT before it failed')) ||
      hasShortTimeout ||
      hasNoToken ||
      endsOnItsOwn ||
      isBusy ||
      isUndone ||
      isLarge ||
      isClosed ||
      this.#hazards.slowMs > 4_000
      ? null
      : 'nothing ended the transaction'
  }

  #hasParentEnded({ parent }: Scope): boolean {
    return parent !== null && (parent.endedAt < Infinity || this.#hasParentEnded(parent))
  }

  #checkTransportError(call: Call, { code }: TransportError): string | null {
    const { queueLimit, writeLockTimeoutMs } = this.#getPlan(call)
    // rows of a stream that was closed in the meantime
    if (code === 'CLOSED' && call.operation === 'rows' && call.scope.endedAt < Infinity) return null
    if (code === 'CLOSED') return this.#isClosed(call) ? null : 'the client was not closed'
    if (code === 'QUEUE_FULL') return queueLimit === undefined ? 'the queue has the default limit' : null
    if (code === 'NETWORK') return this.#hazards.isFaulty ? null : 'no request was lost'
    return writeLockTimeoutMs !== undefined || this.#hazards.isFaulty || this.#mayHaveTimedOut(call)
      ? null
      : 'nothing took long enough'
  }

  /** Whether the call's time limit may have passed. */
  #mayHaveTimedOut(call: Call): boolean {
    const inner = call.inner.flatMap((scope) => scope.calls)
    const hasTimeLimit = [call, ...inner, ...this.#findSurrounding(call)].some(
      ({ plan }) => plan.timeoutMs !== undefined,
    )
    return hasTimeLimit || this.#getPlan(call).requestTimeoutMs !== undefined || this.#hazards.slowMs > 15_000
  }

  #checkTypeError(call: Call, error: TypeError): string | null {
    const { message } = error
    if (message.startsWith('the client is closed'))
      return this.#isClosed(call) ? null : 'the client was not closed'
    if (/rows are being read|rows were being read/.test(message))
      return this.#readsRows(call) ? null : 'no rows were being read'
    if (/missing await/.test(message)) return call.inner.length > 0 ? null : 'it has no callback'
    // misuse of streams
    const { kind } = call.scope
    const isStream = kind === 'stream' && /transaction|SAVEPOINT|stand here/.test(message)
    const isControl = call.sql.some((sql) => / p$|^begin|^commit|^rollback/.test(sql))
    return isStream || isControl || call.mistake ? null : 'nothing was misused'
  }

  /** Whether an active handle was reading rows on the call's stream when the call was made or while it was queued. */
  #readsRows({ scope, mistake, inner, turn, settledTurn }: Call): boolean {
    if (mistake || inner.length > 0) return true
    return this.#program.ledger.calls.some(
      (reader) =>
        reader.operation === 'rows' &&
        reader.scope.root === scope.root &&
        reader.turn <= settledTurn &&
        reader.settledTurn >= turn &&
        reader.scope.endedAt >= turn,
    )
  }
}
