import type { DatabaseError } from '../errors.ts'
import { type ClientEvent, nextId } from '../events.ts'
import type { Http } from '../http/http.ts'
import type { StreamConnection } from './stream-connection.ts'
import { TransactionClock } from './transaction-clock.ts'

type EndEvent = 'transaction:commit' | 'transaction:rollback'

/** One transaction of a stream: its number, its time, its turn among those that write, and its end, which is emitted once. */
export class StreamTransaction {
  readonly clock: TransactionClock
  /** Its number in events. */
  readonly id = nextId()
  /** The COMMIT or ROLLBACK that is on its way; null as long as statements may follow. */
  ending: Promise<unknown> | null = null
  /** It waits for its turn among the write transactions of the client, or has it. */
  turn: Promise<void> | null = null
  readonly #connection: StreamConnection
  readonly #over = new AbortController()
  #endTurn: (() => void) | null = null
  #stopWanting = (): void => {}
  #isOver = false

  constructor(connection: StreamConnection, expire: () => void) {
    const { config, clock } = connection.http
    this.#connection = connection
    this.clock = new TransactionClock(clock, config.transactionTimeoutMs, {
      expire,
      warn: (remainingMs) => this.#emit({ type: 'transaction:expiring', id: this.id, remainingMs }),
    })
    this.#emit({ type: 'transaction:begin', id: this.id })
  }

  get #http(): Http {
    return this.#connection.http
  }

  /** Whether it has the write lock, or its turn to get it. */
  get holdsLock(): boolean {
    return !this.#isOver && (this.#endTurn !== null || this.clock.expiresAt !== null)
  }

  /** Whether it has its turn. */
  get hasTurn(): boolean {
    return this.#endTurn !== null
  }

  /** Whether it waits for its turn. */
  get isWaiting(): boolean {
    return this.turn !== null && !this.hasTurn
  }

  /** Waits for its turn to write. @throws TransportError when that takes too long */
  async takeTurn(sql: string): Promise<void> {
    const { writeLock } = this.#http
    this.#stopWanting = writeLock.want(sql)
    try {
      this.#endTurn = await writeLock.takeTurn(this.#over.signal)
    } catch (error) {
      this.#stopWanting()
      throw error
    }
  }

  /** An answer came. @param gotLock whether to a request that takes the write lock */
  answered(gotLock: boolean): void {
    this.#stopWanting()
    this.clock.resume(gotLock)
  }

  /** Lets the next one write. */
  endTurn(): void {
    this.#stopWanting()
    this.#endTurn?.()
    this.#endTurn = null
    this.turn = null
  }

  /** It is over on this side; it keeps its turn until the server has closed its stream. */
  end(type: EndEvent | 'transaction:lost', error?: DatabaseError): void {
    if (this.#isOver) return
    this.#isOver = true
    this.clock.stop()
    this.#stopWanting()
    this.#emit({ type, id: this.id, ...(error && { error }) } as ClientEvent)
    // costly, and seldom heard
    if (this.isWaiting) this.#over.abort()
  }

  #emit(event: ClientEvent): void {
    this.#http.events.emit(event)
  }
}
