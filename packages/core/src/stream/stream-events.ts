import type { ControlStatement } from '../codec/control.ts'
import type { ClientEvent } from '../observe/events.ts'
import type { CursorCall, QueuedCall, Results } from '../request/queued-call.ts'
import type { Loss, Settlement } from '../request/sql-request.ts'
import type { Rejection } from './rejection.ts'

interface Events {
  call: { call: QueuedCall }
  /** BEGIN, which is sent with the first call. */
  begin: { id: number; statement: ControlStatement }
  savepoint: { statement: ControlStatement }
  /** @param savepoint the statement that set the savepoint */
  release: { statement: ControlStatement; savepoint: ControlStatement }
  rollbackTo: { statement: ControlStatement; savepoint: ControlStatement }
  /** The calls of this tick are complete. */
  flush: {}
  response: { calls: readonly QueuedCall[]; settlement: Settlement; closes: boolean; sending: LastSending }
  /** @param aborted the calls whose signal is aborted, and its reason */
  notSent: { calls: readonly QueuedCall[]; error: unknown; aborted: ReadonlyMap<QueuedCall, unknown> }
  /** There was no usable response. */
  noResponse: { calls: readonly QueuedCall[]; error: unknown; sending: LastSending }
  /** A request was aborted, and its response may still arrive. */
  aborted: {}
  /** The response to an aborted request has arrived, or never will. */
  lateResponse: { isOk: boolean }
  permitQueued: {}
  permitGranted: { hasWaited: boolean }
  permitFailed: { error: unknown }
  /** A queued call was aborted by its signal, or because the client is closed. */
  abort: { call: QueuedCall; reason: unknown }
  /** @param owner only cursors of this handle */
  stopCursors: { owner: object | undefined; rejection: Rejection }
  /** The statement of a cursor has run, at least up to its first row. */
  cursorHasRun: {}
  cursorDone: {}
  lost: { loss: Loss }
  wake: {}
  close: {}
  clientClosed: {}
  /** The request that closes the stream has ended. */
  closeEnded: {}
}

interface Effects {
  /** Sends the event `flush` after the calls of this tick. */
  flushSoon: {}
  send: { calls: readonly QueuedCall[]; closes: boolean }
  openCursor: { call: CursorCall }
  /** @param endsStream whether the stream ends too */
  stopCursor: { call: CursorCall; endsStream: boolean; rejection: Rejection }
  sendClose: {}
  resolve: { call: QueuedCall; results: Results }
  /** @param isOutdated see the function of this name */
  reject: { call: QueuedCall; rejection: Rejection; isOutdated: boolean }
  acquirePermit: {}
  releasePermit: {}
  /** Counts that the client has acquired the write lock. */
  recordLock: {}
  /** Watches the signal of a call until it leaves the queue. */
  watch: { call: QueuedCall }
  emit: { event: Exclude<TransactionEvent, { type: 'transaction:lost' }> }
  /** Reports the loss of the transaction. */
  lost: { id: number }
  /** The stream accepts no more calls: resolves what waits for that. */
  resolveEnded: {}
  /** Resolves the pending calls of `close`. */
  resolveClose: {}
}

type TransactionEvent = Extract<ClientEvent, { type: `transaction:${string}` }>
type Union<Types> = { readonly [T in keyof Types]: { readonly type: T } & Readonly<Types[T]> }[keyof Types]
/** What has happened to a stream. */
export type StreamEvent = Union<Events>
/** What the shell of a stream must do. */
export type Effect = Union<Effects>

/** How a request was last sent. */
export interface LastSending {
  readonly sentAt: number
  /** Whether it continued a stream. A repeated request may continue the stream that its first response opened. */
  readonly continuesStream: boolean
}
