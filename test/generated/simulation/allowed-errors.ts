import {
  DatabaseError,
  HttpError,
  ProtocolError,
  SqlError,
  StreamError,
  TransportError,
} from '@batonsql/core'
import type { ClientPlan, History, Sql } from './history.ts'
import type { Call, Scope } from './ledger.ts'
import type { Network } from './network.ts'
import { nameOf } from './oracle.ts'
import { PlannedError } from './planned-error.ts'
import type { Program } from './program.ts'
import { slownessOf } from './slowness.ts'

/** Faults that can occur in a history, apart from those of its statements. */
interface Hazards {
  /** Requests failed, or the server did. */
  readonly isFaulty: boolean
  /** How long programs slept, or blocked themselves, in ms: others may have waited for them. */
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

/** Shorter delays can neither end a transaction nor exceed the time that an aborted request has to finish. */
export const QUICK_MS = 800

/** How long programs slept, or blocked themselves, in ms. */
export function slownessIn({ ledger }: Program, history: History): number {
  const waitsForItself = ledger.calls.some(({ mistake }) => mistake !== null)
  return slownessOf(history) + (waitsForItself ? 60_000 : 0)
}

/** Errors that nothing in the history explains. */
export function checkErrors(program: Program, network: Network, history: History): string[] {
  const isFaulty = network.hits > 0 || (history.events ?? []).length > 0
  const slowMs = slownessIn(program, history)
  const checker = new ErrorChecker(program, history, { isFaulty, slowMs })
  return program.ledger.calls.flatMap((call) => {
    const problem = call.state === 'failed' ? checker.problem(call) : null
    return problem === null ? [] : [`${nameOf(call)}: ${problem}: ${String(call.error)}`]
  })
}

/** Whether a call only reads, and is not preceded by a savepoint. */
const isPlainRead = ({ what, sql }: Call): boolean =>
  what === 'transaction' || (what === 'execute' && sql.every((each) => each === 'large' || each === 'select'))

class ErrorChecker {
  readonly #program: Program
  readonly #history: History
  readonly #hazards: Hazards

  constructor(program: Program, history: History, hazards: Hazards) {
    this.#program = program
    this.#history = history
    this.#hazards = hazards
  }

  /** Why the error of a call is not allowed; null if it is. */
  problem(call: Call): string | null {
    const { error } = call
    if (call.isAborted && error === call.reason) return null
    // query builders have their own errors, and wrap those of the client
    if (call.scope.isOrm || call.inner.some(({ isOrm }) => isOrm) || 'orm' in call.plan) return null
    // an error from the loop over its rows
    if (call.loopError !== undefined && call.loopError === error) return null
    if (error instanceof PlannedError) return this.#ofProgram(call)
    const last = call.inner.at(-1)
    // an error from its callback is checked where it was thrown
    if (last?.hasThrown && last.thrown === error) return null
    if (last?.hasThrown && call.what === 'transaction' && !(error instanceof DatabaseError))
      return 'not the error thrown by its callback'
    if (error instanceof SqlError) return this.#ofSql(call, error)
    if (error instanceof StreamError) return this.#ofStream(call, error)
    if (error instanceof TransportError) return this.#ofTransport(call, error)
    if (error instanceof HttpError) {
      const { clients, server } = this.#history
      // it could not detect what the server supports, or had no time to do so
      const isShort = call.isAborted || /[tT]imeoutMs/.test(JSON.stringify([call.plan, clients]))
      const isUnknown = server.isExecuteOnly && (isShort || clients.some(({ token }) => token?.fails))
      const isRejected = isUnknown || call.sql.includes('unreadable')
      return this.#hazards.isFaulty || isRejected ? null : 'no request was rejected in transit'
    }
    if (error instanceof ProtocolError) return this.#hazards.isFaulty ? null : 'all responses were valid'
    if (error instanceof TypeError) return this.#ofType(call, error)
    if (error instanceof SyntaxError && call.sql[0] === 'commit; insert') return null
    if (error instanceof RangeError || error instanceof SyntaxError) return 'nothing was out of range'
    return 'not a documented error'
  }

  #plan(call: Call): ClientPlan {
    return this.#history.clients[call.scope.client] ?? {}
  }

  #isClosed({ scope, settledAt }: Call): boolean {
    return (this.#program.clientScopes[scope.client] as Scope).calls.some(
      ({ what, at }) => what === 'close' && at <= settledAt,
    )
  }

  /** Errors that the program throws reject only its own calls. */
  #ofProgram({ what, error, scope }: Call): string | null {
    if ((error as Error).message === 'no token' && this.#history.clients[scope.client]?.token) return null
    const isTaken = what === 'transaction' || what === 'savepoint'
    return isTaken ? null : 'an error of another call'
  }

  #ofSql(call: Call, { code }: SqlError): string | null {
    const { sql, what, scope } = call
    if (this.#hazards.isFaulty) return null
    if (sql.some((each) => SQL_CODES[each]?.includes(code))) return null
    const isLarge = sql.filter((each) => each === 'large').length > 1
    if (isLarge && code === 'RESPONSE_TOO_LARGE') return null
    const isEnd = what === 'transaction' || what === 'commit' || (what === 'execute' && sql[0] === 'commit')
    const calls = what === 'transaction' ? this.#program.ledger.calls : scope.root.calls
    if (isEnd && code === 'SQLITE_CONSTRAINT' && calls.some((call) => call.sql.includes('child'))) return null
    // a savepoint of a stream that does not exist
    const isPoint = scope.calls.some((call) => call.what === 'undo' || call.what === 'forget')
    if (isPoint && code === 'SQLITE_UNKNOWN') return null
    // a deferred transaction that writes after another wrote, and statements on an older snapshot
    const isDeferred = /"mode":"|"whole"/.test(JSON.stringify(this.#history))
    if (code === 'SQLITE_BUSY' && isDeferred) return null
    // neither a cursor nor a request after an executed statement is retried
    const mayBeRejected = what === 'rows' || (/^(chain|script)$/.test(what) && sql.length > 1)
    const isTursodb = this.#history.server.isTursodb === true
    // calls that share a request share the earliest time limit
    const mayBeLate = [call, ...scope.root.calls].some((each) => this.#hasLongWaits(each))
    if (code === 'SQLITE_BUSY' && isTursodb && (mayBeRejected || mayBeLate)) return null
    return 'none of its statements fails with this code'
  }

  #ofStream(call: Call, { code, message }: StreamError): string | null {
    if (this.#hazards.isFaulty || this.#isClosed(call)) return null
    const { root } = call.scope.kind === 'client' ? (call.inner.at(-1) ?? call.scope) : call.scope
    const calls = this.#program.ledger.calls.filter(({ scope }) => scope.root === root)
    if (code === 'STREAM_CLOSED') {
      const isEnded = call.scope.endedAt < Infinity || this.#hasParentEnded(call.scope)
      return isEnded || call.inner.some(({ endedAt }) => endedAt < Infinity)
        ? null
        : 'its handle had not ended'
    }
    const waitedMs = call.settledAt - root.startedAt
    if (code === 'TRANSACTION_EXPIRED' || /without a request/.test(message)) {
      const least = Math.min(5_000, this.#plan(call).transactionTimeoutMs ?? 5_000)
      if (waitedMs < least) return `only ${waitedMs} ms had passed`
      return this.#hazards.slowMs > QUICK_MS || least < 5_000 ? null : 'nothing was slow'
    }
    const mayBeAborted = calls.some(({ isAborted, plan }) => isAborted || plan.timeoutMs !== undefined)
    const hasShortTime = this.#plan(call).requestTimeoutMs !== undefined
    const endsOnItsOwn = calls.some(({ sql }) =>
      sql.some((each) => each === 'or rollback' || each.endsWith(' p')),
    )
    const isBusy = this.#history.tasks.length > 1 && JSON.stringify(this.#history).includes('"mode":"')
    const isUndone = calls.some(({ what }) => what === 'undo' || what === 'forget')
    // reads that share a request are retried one by one
    const isLarge = calls.some(({ sql }) => sql.includes('large')) && !calls.every(isPlainRead)
    const isClosed = calls.some(({ what, at }) => what === 'close stream' && at <= call.settledAt)
    // calls after a COMMIT that is rejected, as by a deferred constraint, were meant to run outside of the transaction
    const isBehindCommit = calls.some(({ what }) => what === 'commit')
    const hasDeferredViolation = calls.some(({ sql }) => sql.includes('child'))
    // such a request ends its stream on the server
    const isNoSql = calls.some(({ what, sql }) => what === 'rows' && sql[0] === 'unparsable')
    // if a call takes several requests, each with a token
    const { isExecuteOnly, isOld, hasNoCursor } = this.#history.server
    const hasNoToken =
      (isExecuteOnly || isOld || hasNoCursor) && this.#history.clients.some(({ token }) => token?.fails)
    return mayBeAborted ||
      (isBehindCommit && hasDeferredViolation && message.includes('the COMMIT before it failed')) ||
      hasShortTime ||
      hasNoToken ||
      endsOnItsOwn ||
      isBusy ||
      isUndone ||
      isLarge ||
      isNoSql ||
      isClosed ||
      this.#hazards.slowMs > 4_000
      ? null
      : 'nothing ended the transaction'
  }

  #hasParentEnded({ parent }: Scope): boolean {
    return parent !== null && (parent.endedAt < Infinity || this.#hasParentEnded(parent))
  }

  #ofTransport(call: Call, { code }: TransportError): string | null {
    const { queueLimit, writeLockTimeoutMs } = this.#plan(call)
    // rows of a stream that was closed in the meantime
    if (code === 'CLOSED' && call.what === 'rows' && call.scope.endedAt < Infinity) return null
    if (code === 'CLOSED') return this.#isClosed(call) ? null : 'the client was not closed'
    if (code === 'QUEUE_FULL') return queueLimit === undefined ? 'the queue has the default limit' : null
    if (code === 'NETWORK') return this.#hazards.isFaulty ? null : 'no request was lost'
    return writeLockTimeoutMs !== undefined || this.#hazards.isFaulty || this.#hasLongWaits(call)
      ? null
      : 'nothing took long enough'
  }

  /** Whether its time limit may have passed. */
  #hasLongWaits(call: Call): boolean {
    const inner = call.inner.flatMap((scope) => scope.calls)
    const isShort = [call, ...inner].some(({ plan }) => plan.timeoutMs !== undefined)
    return isShort || this.#plan(call).requestTimeoutMs !== undefined || this.#hazards.slowMs > 15_000
  }

  #ofType(call: Call, error: TypeError): string | null {
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

  /** Whether a handle that had not ended was reading rows on the call's stream when it was made or while it waited. */
  #readsRows({ scope, mistake, inner, turn, settledTurn }: Call): boolean {
    if (mistake || inner.length > 0) return true
    return this.#program.ledger.calls.some(
      (other) =>
        other.what === 'rows' &&
        other.scope.root === scope.root &&
        other.turn <= settledTurn &&
        other.settledTurn >= turn &&
        other.scope.endedAt >= turn,
    )
  }
}
