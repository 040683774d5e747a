import { CALL_OPTIONS, checkOptions } from '@batonsql/options'
import { asNotApplied, HttpError, ProtocolError, TransportError, toProtocolError } from '../base/errors.ts'
import { stoppableGenerator } from '../base/stoppable-generator.ts'
import { withCallerStack } from '../base/with-caller-stack.ts'
import { type Client, getHttp } from '../client/client.ts'
import type { Http } from '../http/http.ts'
import { type BodyRequest, ResponseBody } from '../http/response-body.ts'
import { backoffMs } from '../http/retry.ts'
import { closedError } from '../transport/failure.ts'
import { EventParser, type ServerSentEvent } from './event-parser.ts'

/** Events of a listener. */
export type ChangeEvent =
  /** Always the first event, and emitted once: the server reports commits from now on. */
  | { readonly type: 'ready' }
  /** A committed transaction changed this many rows of the table. */
  | {
      readonly type: 'changes'
      readonly insert: number
      readonly update: number
      readonly delete: number
      /** Changes of a kind unknown to the server. */
      readonly unknown: number
    }
  /**
   * Changes may have been missed: read the table again. `behind`: the server dropped some because they were not consumed fast
   * enough. `reconnected`: the connection was lost and restored; the server keeps no history.
   */
  | { readonly type: 'lost'; readonly reason: 'behind' | 'reconnected' }

/** A kind of change. */
export type ChangeAction = 'insert' | 'update' | 'delete'

/** Settings of a listener. */
export interface ListenOptions {
  readonly table: string
  /** Reports only transactions with one of these actions; their event counts all actions. @default all */
  readonly actions?: readonly ChangeAction[] | undefined
  /** Ends the listener; the loop throws the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /**
   * Time without data after which the listener reconnects, or the first connection fails, in ms; the server sends a keep-alive every
   * 15 s. A connection also has to begin within the client's `requestTimeoutMs`.
   * @default 40000
   */
  readonly timeoutMs?: number | undefined
}

const OPTIONS = {
  table: 'string',
  actions: { text: 'an array', accepts: Array.isArray },
  ...CALL_OPTIONS,
} as const
const ACTIONS: readonly string[] = ['insert', 'update', 'delete']
const IDLE_TIMEOUT_MS = 40_000

/** First and longest delay before a reconnect, in ms; reset after a connection that lasted longer than `STABLE_AFTER_MS`. */
const FIRST_DELAY_MS = 100
const LONGEST_DELAY_MS = 10_000
const STABLE_AFTER_MS = 5_000
/**
 * Number of empty responses in a row, each sooner than `STABLE_AFTER_MS`, after which the server is taken not to support change
 * events.
 */
const MAX_EMPTY_RESPONSES = 3

/**
 * Listens for commits that change a table, and reports how many rows changed, but not which. Reconnects without limit when a
 * connection is lost or receives no data for too long, and then emits `lost`, because the server keeps no history.
 *
 * ```ts
 * for await (const event of listen(db, { table: 'note' })) …
 * ```
 * The server counts what SQLite's update hook reports, which includes neither changes to WITHOUT ROWID tables nor a DELETE without
 * WHERE. Leaving the loop ends the listener, as does `return()`, even while a `next()` is pending; so does closing the client, with a
 * TransportError `CLOSED`.
 * @throws HttpError if the server rejects the first connection, or a later one with a status other than 408, 429 and 5xx;
 * TransportError if the first connection fails; ProtocolError if the response is not an event stream (judged by its content type or,
 * without one, by its first line), or if the server keeps sending empty responses; the signal's reason
 */
export function listen(db: Client, options: ListenOptions): AsyncGenerator<ChangeEvent, void, undefined> {
  checkOptions(options, OPTIONS)
  const { table, actions = [], signal, timeoutMs = IDLE_TIMEOUT_MS } = options
  if (!table) throw new TypeError('listen needs the name of a table')
  // the URL would have the name of another table
  if (!table.isWellFormed()) throw new RangeError('table has a lone surrogate')
  for (const action of actions)
    if (!ACTIONS.includes(action)) throw new TypeError(`actions are ${ACTIONS.join(', ')}, not '${action}'`)
  const query = new URLSearchParams({ table })
  for (const action of actions) query.append('action', action)
  const path = `/beta/listen?${query.toString()}`
  const http = getHttp(db)
  return stoppableGenerator(
    (joinedSignal) => readEvents(http, { path, signal: joinedSignal, idleTimeoutMs: timeoutMs }),
    signal,
  )
}

/** Reads the events of a request; {@link listen} without its checks. */
export async function* readEvents(
  http: Http,
  request: BodyRequest,
): AsyncGenerator<ChangeEvent, void, undefined> {
  const { signal } = request
  let isFirst = true
  let attempt = 0
  let emptyResponses = 0
  try {
    for (;;) {
      const startedAt = http.clock.now()
      try {
        for await (const event of connectionEvents(http, request)) {
          yield event.type === 'ready' && !isFirst ? { type: 'lost', reason: 'reconnected' } : event
          isFirst = false
        }
      } catch (error) {
        if (isFirst || !shouldReconnect(error) || signal?.aborted) throw error
        const isStable = http.clock.now() - startedAt > STABLE_AFTER_MS
        emptyResponses = error instanceof EmptyResponseError && !isStable ? emptyResponses + 1 : 0
        if (emptyResponses === MAX_EMPTY_RESPONSES)
          throw new ProtocolError((error as Error).message, { cause: error })
        if (isStable) attempt = 0
        const delayMs = backoffMs(attempt, FIRST_DELAY_MS, LONGEST_DELAY_MS)
        attempt += 1
        http.events.emit({ type: 'retry', attempt, delayMs, error })
        await http.lifetime.sleep(delayMs, signal)
      }
    }
  } catch (error) {
    throw withCallerStack(asNotApplied(error))
  }
}

/** Yields the events of one connection. @throws TransportError when the connection ends, for any reason */
async function* connectionEvents(
  http: Http,
  request: BodyRequest,
): AsyncGenerator<ChangeEvent, void, undefined> {
  if (http.lifetime.isClosed) throw closedError()
  const openTimeoutMs = Math.min(http.config.requestTimeoutMs, request.idleTimeoutMs)
  const body = await ResponseBody.open(http, request, openTimeoutMs)
  try {
    const { contentType } = body
    // without a content type, the first line decides; it may take until the first keep-alive
    if (contentType && !/^text\/event-stream\b/i.test(contentType))
      throw new ProtocolError(`the response is not an event stream, but ${contentType}`)
    let isReady = contentType !== null
    if (isReady) yield { type: 'ready' }
    let hasLine = false
    const parser = new EventParser()
    for await (const part of body)
      for (const event of parser.push(part)) {
        if (!isReady) yield { type: 'ready' }
        isReady = true
        hasLine = true
        const change = event && read(event)
        if (change) yield change
      }
    if (!isReady) throw new ProtocolError('the response is not an event stream')
    if (!hasLine) throw new EmptyResponseError()
    throw new TransportError('NETWORK', 'the server ended the stream of changes', 'not_applied')
  } finally {
    body.close()
  }
}

class EmptyResponseError extends TransportError {
  constructor() {
    super('NETWORK', 'the server ended the stream of changes before it sent anything', 'not_applied')
  }
}

function read({ event, data }: ServerSentEvent): ChangeEvent | null {
  // the server sends errors only for changes that were not consumed fast enough
  if (event === 'error') return { type: 'lost', reason: 'behind' }
  if (event !== 'changes') return null
  try {
    const counts = JSON.parse(data) as Partial<Record<'insert' | 'update' | 'delete' | 'unknown', number>>
    const { insert = 0, update = 0, delete: deleted = 0, unknown = 0 } = counts
    return { type: 'changes', insert, update, delete: deleted, unknown }
  } catch (error) {
    throw toProtocolError(error)
  }
}

function shouldReconnect(error: unknown): boolean {
  if (error instanceof TransportError) return error.code === 'NETWORK' || error.code === 'TIMEOUT'
  return error instanceof HttpError && (error.status >= 500 || error.status === 429 || error.status === 408)
}
