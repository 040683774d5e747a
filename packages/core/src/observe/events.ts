import { channel, warn } from '#diagnostics'
import type { Clock } from '../base/clock.ts'
import { type DatabaseError, messageOf } from '../base/errors.ts'
import type { ResultSet } from '../codec/result.ts'
import type { EncodedStatement } from '../codec/statement.ts'
import type { TransportRequest } from '../transport/transport.ts'

/** Events passed to `observe`. Statements are included as text without arguments; no event contains a token. Times are in ms. */
export type ClientEvent =
  | {
      readonly type: 'query:start'
      /** Identifies the events of one call. */
      readonly id: number
      /** The statement, or those of a batch. */
      readonly sql: readonly string[]
      readonly inTransaction: boolean
      /** The `id` of its transaction's events; null outside of one. */
      readonly transaction: number | null
    }
  | {
      readonly type: 'query:end'
      readonly id: number
      readonly durationMs: number
      /** Number of rows returned. */
      readonly rows: number
      /** Number of rows read and written by the engine, for billing; 0 for `readRows`, whose responses do not contain it. */
      readonly rowsRead: number
      readonly rowsWritten: number
    }
  | {
      readonly type: 'query:error'
      readonly id: number
      readonly durationMs: number
      readonly error: unknown
    }
  | {
      readonly type: 'transaction:begin' | 'transaction:commit' | 'transaction:rollback'
      readonly id: number
    }
  /** Four fifths of the time after which a waiting writer may take over the write lock have passed. */
  | { readonly type: 'transaction:expiring'; readonly id: number; readonly remainingMs: number }
  | { readonly type: 'transaction:lost'; readonly id: number; readonly error: DatabaseError }
  /** A request, or with `retry` a whole transaction, is retried after `delayMs`; `attempt` counts from 1. */
  | {
      readonly type: 'retry'
      readonly attempt: number
      readonly delayMs: number
      readonly error: unknown
    }
  | {
      readonly type: 'request'
      readonly method: string
      readonly path: string
      /** Null without a response. */
      readonly status: number | null
      readonly requestBytes: number
      readonly responseBytes: number
      readonly durationMs: number
    }

/**
 * Receives the events of a client. An error that it throws does not affect the call: the first one of a client is emitted as a process
 * warning, or printed with `console.warn` on platforms without them.
 */
export type Observe = (event: ClientEvent) => void

let lastId = 0

/** Emits events to the observer of a client and, in Node, to the diagnostics channel `baton`. */
export class Events {
  readonly #observe: Observe | undefined
  #hasFailed = false

  constructor(observe: Observe | undefined) {
    this.#observe = observe
  }

  /** Whether there is a listener; without one, no event needs to be created. */
  get isWatched(): boolean {
    return this.#observe !== undefined || channel.hasSubscribers
  }

  emit(event: ClientEvent): void {
    channel.publish(event)
    try {
      const result: unknown = this.#observe?.(event)
      // an observer may be an async function
      if (result instanceof Promise) result.catch(this.#warn)
    } catch (error) {
      this.#warn(error)
    }
  }

  /** Reports the first error of the observer, which would otherwise end the process. */
  readonly #warn = (error: unknown): void => {
    if (this.#hasFailed) return
    this.#hasFailed = true
    warn(`observe failed: ${(error as Error | null)?.stack ?? messageOf(error)}`)
  }

  /** Returns a function that reports a request that is sent now. @param status null without a response */
  request(
    { method, path, body }: TransportRequest,
    clock: Clock,
  ): (status: number | null, responseBytes: number) => void {
    const startedAt = clock.now()
    return (status, responseBytes) =>
      this.emit({
        type: 'request',
        method,
        path,
        status,
        requestBytes: byteLength(body),
        responseBytes,
        durationMs: clock.now() - startedAt,
      })
  }

  /** Reports a call from its beginning to its end. */
  query<T extends readonly ResultSet<unknown>[]>(
    statements: readonly EncodedStatement[],
    transaction: number | null,
    run: () => Promise<T>,
  ): Promise<T> {
    if (!this.isWatched) return run()
    const report = this.begin(statements, transaction)
    // called at once, so that calls keep their order; an error thrown synchronously is reported too
    const result = (async () => run())()
    return result.then(
      (results) => {
        const counts = { rows: 0, rowsRead: 0, rowsWritten: 0 }
        for (const { rows, rowsRead, rowsWritten } of results) {
          counts.rows += rows.length
          counts.rowsRead += rowsRead
          counts.rowsWritten += rowsWritten
        }
        report.end(counts)
        return results
      },
      (error) => {
        report.fail(error)
        throw error
      },
    )
  }

  /**
   * Reports the beginning of a call.
   * @param transaction the id of its transaction
   * @returns functions that report its end
   */
  begin(statements: readonly EncodedStatement[], transaction: number | null): QueryReport {
    const id = nextId()
    const startedAt = performance.now()
    const durationMs = (): number => performance.now() - startedAt
    const sql = statements.map((statement) => statement.sql)
    this.emit({ type: 'query:start', id, sql, inTransaction: transaction !== null, transaction })
    return {
      end: (counts) => this.emit({ type: 'query:end', id, durationMs: durationMs(), ...counts }),
      fail: (error) => this.emit({ type: 'query:error', id, durationMs: durationMs(), error }),
    }
  }
}

/** Reports the end of a call. */
export interface QueryReport {
  end(counts: { readonly rows: number; readonly rowsRead: number; readonly rowsWritten: number }): void
  fail(error: unknown): void
}

export const nextId = (): number => (lastId += 1)

export const byteLength = (text: string | null | undefined): number =>
  new TextEncoder().encode(text ?? '').length
