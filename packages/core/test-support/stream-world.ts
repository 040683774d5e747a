import { HttpError, SqlError, TransportError } from '../src/base/errors.ts'
import {
  beginStatement,
  releaseStatement,
  rollbackToStatement,
  savepointStatement,
} from '../src/codec/control.ts'
import {
  type CursorCall,
  endsTransaction,
  type HandleState,
  isUndone,
  type ParseCall,
  type QueuedCall,
} from '../src/request/queued-call.ts'
import { type CallOutcome, ENDED_BY_SERVER } from '../src/request/sql-request.ts'
import { StreamMachine } from '../src/stream/machine.ts'
import type { Rejection } from '../src/stream/rejection.ts'
import type { Effect, StreamEvent } from '../src/stream/stream-events.ts'
import { isInTransaction, nextWake, type StreamState } from '../src/stream/stream-state.ts'

// Streams of one client with one write permit, a server, and a shell that performs effects without promises or HTTP. A move is
// something that a program, the server, the network or time does next. Every rule that a move breaks is a violation.

/** Maximum number of calls of each stream, so that the number of states is finite. */
const MAX_CALLS = 6
const CALL_TIMEOUT_MS = 4_000

const BEGIN = beginStatement('immediate')
const BEGIN_DEFERRED = beginStatement('deferred')
const SAVEPOINT = savepointStatement('a')
const ROLLBACK_TO = rollbackToStatement('a')
const RELEASE = releaseStatement('a')
const REJECTED = new SqlError({ message: 'rejected', code: 'SQLITE_CONSTRAINT' })
const BUSY = new SqlError({ message: 'database is locked', code: 'SQLITE_BUSY' })
const LOST = new TransportError('NETWORK', 'lost', 'unknown')
const REFUSED = new TransportError('NETWORK', 'refused', 'not_applied')
const UNKNOWN_STREAM = new HttpError(404, '/', '{"error":"stream not found"}')
const HANDLE_ENDED: Rejection = { type: 'stream', code: 'STREAM_CLOSED', message: 'the handle ended' }
const CONFIG = { queueLimit: 100, transactionTimeoutMs: Infinity }
const UNUSED = (): void => {}
/** Owner of the cursors that are opened outside of savepoints. */
const OWNER = {}

/** A call, and what its caller was told. */
type Call = QueuedCall & {
  readonly id: number
  readonly isWrite: boolean
  /** Id of its transaction; 0 outside of one. */
  readonly transaction: number
  outcome: 'pending' | 'resolved' | 'not applied' | 'unknown'
  isWatched: boolean
}

interface Request {
  /** Whether it opens the stream. */
  readonly isNew: boolean
  readonly calls: readonly QueuedCall[]
  readonly closes: boolean
}

/** A stream, the work of its shell, and its counterpart on the server. */
interface Stream {
  readonly index: number
  readonly machine: StreamMachine
  readonly state: StreamState
  readonly calls: Call[]
  transactions: number
  savepoint: HandleState | null
  willFlush: boolean
  request: Request | null
  cursor: CursorCall | null
  isClosing: boolean
  /** The aborted request whose response may still arrive. */
  late: Request | null
  isGranted: boolean
  isExpired: boolean
  hasWarned: boolean
  isUnknown: boolean
  loss: StreamState['loss']
  /** Ids of the writes of the open transaction on the server, and SET for a savepoint; null outside of a transaction. */
  writes: number[] | null
  /** Whether that transaction has the write lock, if it is open. */
  hasLock: boolean
  isDeferred: boolean
}

const EMPTY = {
  transactions: 0,
  savepoint: null,
  willFlush: false,
  request: null,
  cursor: null,
  isClosing: false,
  late: null,
  isGranted: false,
  isExpired: false,
  hasWarned: false,
  isUnknown: false,
  loss: null,
  writes: null,
  hasLock: false,
  isDeferred: false,
}
const SENDING = { sentAt: 0, continuesStream: true }
const NEW_SENDING = { sentAt: 0, continuesStream: false }
const SET = -1
/** The ids of the calls of each stream begin after a multiple of this. */
const FIRST_ID = 100
export type Fault = (effects: readonly Effect[]) => readonly Effect[]
type Move = readonly [name: string, apply: () => void]

export class World {
  now = 1_000
  acquired = 0
  /** Ids of the writes and COMMITs that took effect. */
  readonly applied = new Set<number>()
  /** The stream that has the permit, and those that wait for it. */
  #holder: Stream | null = null
  readonly #waiting: Stream[] = []
  readonly #streams: Stream[]
  readonly #effects: [Stream, Effect][] = []
  #isPerforming = false
  /** The rule that was broken. */
  violation: string | null = null

  readonly #fault: Fault

  /** @param fault changes what the machine decides */
  constructor(streamCount: number, fault: Fault = (effects) => effects) {
    this.#fault = fault
    const clock = { now: () => this.now }
    const acquired = (): number => this.acquired
    const client = {
      clock,
      config: CONFIG,
      server: { hasV3: true, V2Guard: undefined },
      writeLock: {
        get acquired() {
          return acquired()
        },
      },
      hasPendingWrites: false,
    }
    const newStream = (index: number): Stream => {
      const machine = new StreamMachine(client)
      return { ...EMPTY, index, machine, state: machine.state, calls: [] }
    }
    this.#streams = Array.from({ length: streamCount }, (_, index) => newStream(index))
  }

  /** Returns what may happen next. */
  moves(): Move[] {
    return this.#streams.flatMap((stream) =>
      [...this.#programMoves(stream), ...this.#otherMoves(stream)].map(
        ([name, apply]): Move => [`${name} (${stream.index})`, apply],
      ),
    )
  }

  #programMoves(stream: Stream): Move[] {
    const { calls, savepoint, state } = stream
    const dispatch = (event: StreamEvent) => (): void => this.#dispatch(stream, event)
    const call = (fields: Partial<Call>) => (): void => this.#call(stream, fields)
    const moves: Move[] = state.queue.map((queued) => [
      'abort',
      dispatch({ type: 'abort', call: queued, reason: REFUSED }),
    ])
    if (state.phase !== 'closed' && (state.isOpen || state.loss === null))
      moves.push(['close', dispatch({ type: 'close' })])
    if (savepoint)
      moves.push(
        ['undo', () => this.#endSavepoint(stream, true)],
        ['release', () => this.#endSavepoint(stream, false)],
      )
    // a call of a stream that is closed is rejected at once
    if (calls.length >= MAX_CALLS || !state.isOpen) return moves
    const reader = { owner: savepoint ?? OWNER, stop: UNUSED, newParseCall }
    moves.push(
      ['write', call({ isWrite: true })],
      ['read', call({ isReadOnly: true })],
      ['rows', call({ isReadOnly: true, kind: 'cursor', isUnparsed: true, reader })],
      ['commit', call({ kind: 'commit' })],
      ['rollback', call({ kind: 'rollback' })],
      ['the client is closed', dispatch({ type: 'clientClosed' })],
    )
    if (!state.transaction)
      for (const statement of [BEGIN, BEGIN_DEFERRED])
        moves.push([
          statement.sql,
          () => this.#dispatch(stream, { type: 'begin', id: (stream.transactions += 1), statement }),
        ])
    if (isInTransaction(state) && !savepoint) moves.push(['savepoint', () => this.#startSavepoint(stream)])
    return moves
  }

  /** Returns the moves of the shell, the network, the server and time. */
  #otherMoves(stream: Stream): Move[] {
    const { state } = stream
    const moves = this.#shellMoves(stream)
    const { cursor, isClosing, late, request } = stream
    if (request) {
      moves.push(
        ['rejected', () => this.#respond(stream, true)],
        ['lost after', () => this.#lose(stream, LOST, true)],
        ['lost before', () => this.#lose(stream, LOST, false)],
        ['not sent', () => this.#refuse(stream)],
        ['abort request', () => this.#abortRequest(stream)],
      )
      const [, ...others] = request.calls
      const [first] = request.calls as [QueuedCall]
      if (others.length === 0 && first.scope === 'transaction' && !endsTransaction(first))
        moves.push(['not parsed', () => this.#respondUnparsed(stream, first)])
      if (others.length > 0 && !request.closes) {
        moves.push(['not parsed', () => this.#respondWithoutResults(stream, true)])
        if (
          request.calls.every(({ isReadOnly }) => isReadOnly) &&
          others.every(({ prefix }) => prefix.length === 0)
        )
          moves.push(['too large', () => this.#respondWithoutResults(stream, false)])
      }
      if (!request.isNew) moves.push(['unknown stream', () => this.#lose(stream, UNKNOWN_STREAM, false)])
    }
    if (late) moves.push(['no late response', () => this.#endLate(stream, false)])
    if (cursor && !state.isCursorStopped) moves.push(['rows fail', () => this.#failRows(stream, cursor)])
    if (isClosing) moves.push(['close is lost', () => this.#endClose(stream)])
    if (stream.writes) moves.push(['the server ends the transaction', () => (stream.writes = null)])
    if (this.#waiting.includes(stream))
      moves.push([
        'no permit',
        () => {
          this.#waiting.splice(this.#waiting.indexOf(stream), 1)
          this.#dispatch(stream, { type: 'permitFailed', error: REFUSED })
        },
      ])
    if (nextWake(state, CONFIG) !== Infinity) moves.push(['wake', () => this.#wake(stream)])
    return moves
  }

  /** Returns the moves without a fault that go on with what was begun. */
  progress(): Move[] {
    return this.#streams.flatMap((stream) => this.#shellMoves(stream))
  }

  #shellMoves(stream: Stream): Move[] {
    const moves: Move[] = []
    if (stream.willFlush)
      moves.push([
        'flush',
        () => {
          stream.willFlush = false
          this.#dispatch(stream, { type: 'flush' })
        },
      ])
    if (stream.isGranted)
      moves.push([
        'granted',
        () => {
          stream.isGranted = false
          this.#dispatch(stream, { type: 'permitGranted', hasWaited: true })
        },
      ])
    if (stream.request) moves.push(['response', () => this.#respond(stream, false)])
    if (stream.late) moves.push(['late response', () => this.#endLate(stream, true)])
    if (stream.cursor) moves.push(['rows end', () => this.#endRows(stream)])
    if (stream.isClosing) moves.push(['closed', () => this.#endClose(stream)])
    return moves
  }

  /** Lets everything end without further faults, closes the streams, and checks that nothing is left. */
  settle(): void {
    const go = (): void => {
      for (let count = 0; count < 200; count += 1) {
        const [move] = this.progress()
        if (!move || this.violation) return
        move[1]()
      }
      this.violation ??= 'does not come to an end'
    }
    go()
    for (const stream of this.#streams) {
      this.#dispatch(stream, { type: 'close' })
      go()
    }
    for (const { calls, state, writes } of this.#streams) {
      if (writes) this.violation ??= 'left a transaction on the server'
      if (state.phase !== 'closed') this.violation ??= `a stream is ${state.phase} after close()`
      if (state.permit !== 'none' || state.transaction)
        this.violation ??= 'a closed stream has a permit or a transaction'
      for (const call of calls)
        if (call.outcome === 'pending') this.violation ??= `${describe(call)} was never settled`
    }
    if (this.#holder || this.#waiting.length > 0) this.violation ??= 'a permit was not returned'
    this.check()
  }

  /** Checks what callers were told against what took effect. */
  check(): void {
    for (const { calls } of this.#streams)
      for (const call of calls) {
        const isApplied = this.applied.has(call.id)
        if (call.outcome === 'not applied' && isApplied)
          this.violation ??= `${describe(call)} took effect, but its caller was told that it did not`
        if (call.outcome !== 'resolved') continue
        const writes = calls.filter(({ isWrite, transaction }) => isWrite && transaction === call.transaction)
        if (call.kind === 'rollback' && writes.some(({ id }) => this.applied.has(id)))
          this.violation ??= 'a write took effect although its transaction was rolled back'
        const mustBeApplied =
          call.kind === 'commit'
            ? writes.some(({ outcome }) => outcome === 'resolved')
            : call.isWrite && call.transaction === 0
        if (mustBeApplied && !isApplied) this.violation ??= `${describe(call)} did not take effect`
      }
  }

  // the program

  #call(stream: Stream, fields: Partial<Call>): void {
    const { calls, index, savepoint, state } = stream
    const inTransaction = isInTransaction(state)
    const isEnd = fields.kind === 'commit' || fields.kind === 'rollback'
    const call = {
      kind: 'statements',
      id: index * FIRST_ID + calls.length + 1,
      statements: [],
      scope: inTransaction || isEnd ? 'transaction' : 'autocommit',
      prefix: [],
      isReadOnly: false,
      isWrite: false,
      options: {},
      deadline: { endsAt: this.now + CALL_TIMEOUT_MS, timeoutMs: CALL_TIMEOUT_MS } as QueuedCall['deadline'],
      handleState: savepoint ?? undefined,
      transaction: inTransaction ? stream.transactions : 0,
      outcome: 'pending',
      isWatched: false,
      resolve: UNUSED,
      reject: UNUSED,
      ...fields,
    } as Call
    calls.push(call)
    this.#dispatch(stream, { type: 'call', call })
  }

  #startSavepoint(stream: Stream): void {
    stream.savepoint = { kind: 'savepoint', parent: null, end: null }
    this.#dispatch(stream, { type: 'savepoint', statement: SAVEPOINT })
  }

  #endSavepoint(stream: Stream, isUndo: boolean): void {
    const handle = stream.savepoint as HandleState
    stream.savepoint = null
    handle.end = isUndo ? 'rolled back' : 'committed'
    this.#dispatch(stream, { type: 'stopCursors', owner: handle, rejection: HANDLE_ENDED })
    const savepoint = SAVEPOINT
    // `Transaction` first waits for the request in flight
    if (isUndo) this.#dispatch(stream, { type: 'rollbackTo', statement: ROLLBACK_TO, savepoint })
    this.#dispatch(stream, { type: 'release', statement: RELEASE, savepoint })
  }

  // the shell

  #dispatch(stream: Stream, event: StreamEvent): void {
    stream.machine.step(event)
    stream.machine.refusal = null
    for (const effect of this.#fault(stream.machine.effects.splice(0))) this.#effects.push([stream, effect])
    if (this.#isPerforming) return
    this.#isPerforming = true
    for (let next = this.#effects.shift(); next; next = this.#effects.shift()) this.#perform(...next)
    this.#isPerforming = false
    // a savepoint ends with its transaction
    if (!stream.state.transaction) stream.savepoint = null
    this.#checkState(stream)
  }

  #checkState(stream: Stream): void {
    const { cursor, isCursorStopped, loss, permit, phase, prefix, queue, transaction } = stream.state
    const isIdle = phase === 'idle'
    if (isIdle && stream.writes && transaction && stream.hasLock !== (transaction.lockedSince !== null))
      this.violation ??= `does not know that it ${stream.hasLock ? 'holds' : 'does not hold'} the write lock`
    if ((phase === 'sending' || phase === 'reading') && queue.some((call) => !(call as Call).isWatched))
      this.violation ??= 'does not watch a call that waits'
    if (isIdle && permit === 'queued' && queue.every(endsTransaction))
      this.violation ??= 'waits for a permit without a statement'
    if (isIdle && permit === 'held' && queue.length === 0 && prefix[0]?.kind === 'begin')
      this.violation ??= 'holds a permit for a transaction that the server has not begun'
    if (loss && cursor && !isCursorStopped) this.violation ??= 'reads after a loss'
    stream.loss ??= loss
    if (stream.loss !== loss) this.violation ??= 'the reason of a loss has changed'
  }

  #perform(stream: Stream, effect: Effect): void {
    const { state } = stream
    switch (effect.type) {
      case 'flushSoon':
        stream.willFlush = true
        return
      case 'send':
        this.#checkFree(stream, effect.type)
        if (state.loss) this.violation ??= 'sent after a loss'
        if (effect.calls.some(({ handleState }) => handleState && isUndone(handleState)))
          this.violation ??= 'sent although its savepoint was undone'
        this.#checkRequest(state, effect.calls)
        stream.request = { ...effect, isNew: state.baton === null }
        return
      case 'openCursor':
        this.#checkFree(stream, effect.type)
        if (!state.isOpen) this.violation ??= 'reads after close()'
        stream.cursor = effect.call
        return this.#settleCall(effect.call, 'resolved')
      case 'sendClose':
        this.#checkFree(stream, effect.type)
        if (stream.isUnknown) this.violation ??= 'closes a stream that the server does not have'
        stream.isClosing = true
        return
      case 'resolve':
        return this.#settleCall(effect.call, 'resolved')
      case 'reject':
        return this.#settleCall(effect.call, outcomeOf(effect.rejection))
      case 'acquirePermit':
        if (state.queue[0] && endsTransaction(state.queue[0]))
          this.violation ??= 'waits for a permit in order to send nothing'
        if (this.#holder) {
          this.#waiting.push(stream)
          return this.#dispatch(stream, { type: 'permitQueued' })
        }
        this.#holder = stream
        return this.#dispatch(stream, { type: 'permitGranted', hasWaited: false })
      case 'releasePermit':
        return this.#releasePermit(stream)
      case 'watch':
        ;(effect.call as Call).isWatched = true
        return
      case 'recordLock':
        this.acquired += 1
        return
      case 'emit':
        stream.hasWarned = effect.event.type === 'transaction:expiring'
        return
      case 'lost':
        if (state.loss?.code === 'TRANSACTION_EXPIRED' && !stream.hasWarned)
          this.violation ??= 'expired without a warning'
        return
      // a cursor, and calls to close(), end with the next moves
      case 'stopCursor':
      case 'resolveEnded':
      case 'resolveClose':
    }
  }

  #checkRequest({ baton }: StreamState, calls: readonly QueuedCall[]): void {
    const [first] = calls
    if (baton === null && first?.scope === 'transaction' && first.prefix[0]?.kind !== 'begin')
      this.violation ??= 'continues a transaction without its stream'
  }

  #checkFree({ cursor, isClosing, late, request }: Stream, effect: string): void {
    if (cursor || isClosing || late || request) this.violation ??= `${effect} while a request is in flight`
  }

  #settleCall(call: QueuedCall, outcome: Call['outcome']): void {
    // the loop over rows fails after the cursor was opened
    if ('isLoop' in call) return
    if ((call as Call).outcome !== 'pending') this.violation ??= `${describe(call as Call)} was settled twice`
    ;(call as Call).outcome = outcome
  }

  #releasePermit(stream: Stream): void {
    stream.isGranted = false
    const position = this.#waiting.indexOf(stream)
    if (position >= 0) this.#waiting.splice(position, 1)
    else if (this.#holder === stream) {
      this.#holder = this.#waiting.shift() ?? null
      if (this.#holder) this.#holder.isGranted = true
    } else this.violation ??= 'released a permit that it did not have'
  }

  #wake(stream: Stream): void {
    // by now the server has closed a stream that is closing
    if (stream.state.phase === 'closing') stream.isExpired = true
    if (stream.isExpired) stream.writes = null
    const at = nextWake(stream.state, CONFIG)
    this.now = Math.max(this.now, at)
    this.#dispatch(stream, { type: 'wake' })
    if (nextWake(stream.state, CONFIG) === at) this.violation ??= 'was woken in vain'
  }

  // the network and the server

  #takeRequest(stream: Stream): Request {
    const request = stream.request as Request
    stream.request = null
    return request
  }

  #respond(stream: Stream, isRejected: boolean): void {
    const request = this.#takeRequest(stream)
    const { calls, closes } = request
    const outcomes = this.#execute(stream, request, isRejected)
    stream.state.baton = closes ? null : 'baton'
    this.#dispatch(stream, { type: 'response', calls, closes, settlement: { outcomes }, sending: SENDING })
  }

  #lose(stream: Stream, error: unknown, isExecuted: boolean): void {
    const request = this.#takeRequest(stream)
    if (isExecuted) this.#execute(stream, request, false)
    // what the client cannot close ends by itself
    stream.isUnknown = error === UNKNOWN_STREAM
    if (request.isNew || stream.isUnknown) stream.writes = null
    this.#dispatch(stream, {
      type: 'noResponse',
      calls: request.calls,
      error,
      sending: request.isNew ? NEW_SENDING : SENDING,
    })
  }

  /** Responds that a statement cannot be parsed. */
  #respondUnparsed(stream: Stream, call: QueuedCall): void {
    const { calls, closes } = this.#takeRequest(stream)
    if (closes) stream.writes = null
    stream.state.baton = closes ? null : 'baton'
    const settlement = { outcomes: [{ error: REJECTED }], prefix: call.prefix, ranNothing: true }
    this.#dispatch(stream, { type: 'response', calls, closes, settlement, sending: SENDING })
  }

  /** Responds that the results of several calls are too large, or (if nothing ran) that a statement cannot be parsed. */
  #respondWithoutResults(stream: Stream, ranNothing: boolean): void {
    const { calls, closes } = this.#takeRequest(stream)
    if (!ranNothing) for (const { sql } of calls[0]?.prefix ?? []) this.#executeControl(stream, sql)
    stream.state.baton = 'baton'
    this.#dispatch(stream, { type: 'response', calls, closes, settlement: { ranNothing }, sending: SENDING })
  }

  #refuse(stream: Stream): void {
    const { calls } = this.#takeRequest(stream)
    this.#dispatch(stream, { type: 'notSent', calls, error: REFUSED, aborted: new Map() })
  }

  #abortRequest(stream: Stream): void {
    const request = this.#takeRequest(stream)
    stream.late = request
    this.#dispatch(stream, { type: 'aborted' })
    this.#dispatch(stream, { type: 'noResponse', calls: request.calls, error: LOST, sending: SENDING })
  }

  #endLate(stream: Stream, isOk: boolean): void {
    const request = stream.late as Request
    stream.late = null
    if (isOk) {
      if (!stream.isExpired) this.#execute(stream, request, false)
      stream.state.baton = request.closes ? null : 'baton'
    } else if (request.isNew) stream.writes = null
    this.#dispatch(stream, { type: 'lateResponse', isOk })
  }

  #endRows(stream: Stream): void {
    stream.cursor = null
    stream.state.baton = 'baton'
    this.#dispatch(stream, { type: 'cursorHasRun' })
    this.#dispatch(stream, { type: 'cursorDone' })
  }

  #failRows(stream: Stream, call: CursorCall): void {
    const loop: QueuedCall & { isLoop: true } = { ...call, isLoop: true }
    this.#dispatch(stream, { type: 'noResponse', calls: [loop], error: LOST, sending: SENDING })
    stream.cursor = null
    this.#dispatch(stream, { type: 'cursorDone' })
  }

  #endClose(stream: Stream): void {
    stream.isClosing = false
    stream.writes = null
    this.#dispatch(stream, { type: 'closeEnded' })
  }

  /** Executes a request on the server. @param isRejected whether its last statement is rejected */
  #execute(stream: Stream, { calls, closes }: Request, isRejected: boolean): CallOutcome[] {
    const outcomes = calls.map((call, position) =>
      this.#executeCall(stream, call as Call, isRejected && position === calls.length - 1),
    )
    if (closes) stream.writes = null
    return outcomes
  }

  #executeCall(stream: Stream, call: Call, isRejected: boolean): CallOutcome {
    const { id, isWrite, kind, prefix, scope } = call
    if (scope === 'transaction') {
      for (const { sql } of prefix) this.#executeControl(stream, sql)
      if (stream.writes === null) return { loss: ENDED_BY_SERVER }
      if (isWrite && kind !== 'parse' && !stream.hasLock) {
        if (this.#streams.some(isLocking)) return { error: BUSY }
        stream.hasLock = true
      }
      // nothing can be wrong with the end of a transaction that only reads
      if (endsTransaction(call) && !stream.hasLock) isRejected = false
    }
    if (isRejected) return { error: REJECTED }
    if (kind === 'commit')
      for (const write of [...(stream.writes ?? []), id]) if (write !== SET) this.applied.add(write)
    if (endsTransaction(call)) stream.writes = null
    else if (isWrite && kind !== 'parse') {
      if (stream.writes) stream.writes.push(id)
      else this.applied.add(id)
    }
    return { results: [] }
  }

  #executeControl(stream: Stream, sql: string): void {
    if (sql === BEGIN.sql || sql === BEGIN_DEFERRED.sql) {
      if (stream.writes) this.violation ??= 'BEGIN in a transaction'
      stream.isDeferred = sql === BEGIN_DEFERRED.sql
      stream.hasLock = !stream.isDeferred
      if (stream.hasLock)
        for (const other of this.#streams.filter(isLocking)) {
          if (!other.isDeferred) this.violation ??= 'two transactions at once'
          // a deferred transaction acquires the lock without a permit; the server ends it when another one waits for too long
          other.writes = null
        }
      stream.writes = []
      return
    }
    const { writes } = stream
    if (writes === null) return
    if (sql === SAVEPOINT.sql) return void writes.push(SET)
    const position = writes.lastIndexOf(SET)
    if (position < 0) this.violation ??= `${sql} without a savepoint`
    else if (sql === ROLLBACK_TO.sql) writes.splice(position + 1)
    else writes.splice(position, 1)
  }

  /** Returns a text that is equal for worlds with the same future, whichever stream is which. */
  key(): string {
    const { now } = this
    const streams = this.#streams.map((stream) => {
      const { calls, savepoint, state, writes } = stream
      const { loss, queue, transaction } = state
      const ids = (list: readonly QueuedCall[] | undefined): unknown => list?.map(keyOf)
      return JSON.stringify([
        state.phase,
        state.isOpen,
        loss?.code,
        ids(queue),
        state.queueDeadline - now,
        state.prefix.map(({ sql }) => sql),
        state.parsing && keyOf(state.parsing),
        state.cursor && keyOf(state.cursor),
        state.isCursorStopped,
        transaction && [
          transaction.lockedSince && transaction.lockedSince - now,
          transaction.hasWarned,
          transaction.isEnding,
        ],
        transaction && this.acquired - transaction.lockNumber,
        state.phase === 'idle' || state.phase === 'closing' ? state.phaseSince - now : 0,
        [
          state.permit,
          state.baton,
          state.late,
          stream.isGranted,
          stream.willFlush,
          stream.isClosing,
          stream.isExpired,
        ],
        ids(stream.request?.calls),
        stream.request?.closes,
        ids(stream.late?.calls),
        stream.cursor && keyOf(stream.cursor),
        savepoint?.end,
        writes?.map((id) => (id === SET ? id : toPosition(id))),
        [stream.hasLock, stream.isDeferred],
        calls.map(({ id, outcome, transaction }) => `${outcome}${transaction}${this.applied.has(id)}`),
        this.#holder === stream,
        this.#waiting.indexOf(stream),
      ])
    })
    return streams.toSorted().join()
  }
}

/** Whether a stream has a transaction with the write lock on the server. */
const isLocking = ({ hasLock, writes }: Stream): boolean => hasLock && writes !== null

/** Returns the position of a call in its stream, from its id. */
const toPosition = (id: number): number => id % FIRST_ID

const keyOf = (call: QueuedCall): unknown => {
  const { handleState, id, isWrite, kind, mustBeAlone, prefix, scope } = call as Call
  return [
    toPosition(id),
    isWrite,
    kind,
    prefix.map(({ sql }) => sql),
    'isUnparsed' in call && call.isUnparsed,
    kind === 'statements' && scope,
    mustBeAlone,
    handleState?.end,
  ]
}

/** Returns what a caller is told about the effect of its call. */
function outcomeOf(rejection: Rejection): Call['outcome'] {
  if (rejection.type !== 'error') return 'not applied'
  return rejection.error === LOST || (rejection.error as HttpError).outcome === 'unknown'
    ? 'unknown'
    : 'not applied'
}

/** Works like the method of `RowReader`. */
const newParseCall = (call: CursorCall): ParseCall => ({
  ...call,
  ...(call.scope === 'transaction' ? { scope: call.scope } : { scope: 'chain', prefix: [] }),
  kind: 'parse',
  cursorCall: call,
})

const describe = (call: Call): string =>
  `${endsTransaction(call) ? call.kind : call.isWrite ? 'write' : 'read'} ${call.id}`
