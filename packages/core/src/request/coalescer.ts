import { Deferred } from '../base/deferred.ts'
import { COALESCED_CHARACTERS, COALESCED_STATEMENTS } from '../base/limits.ts'
import type { Http } from '../http/http.ts'
import { Limiter } from '../http/limiter.ts'
import { timeoutError } from '../transport/failure.ts'
import type { QueuedCall } from './queued-call.ts'
import { sendStateless } from './send-stateless.ts'
import { SqlRequest } from './sql-request.ts'

/** A call that shares a request with others. */
interface Entry {
  readonly operation: SqlRequest
  readonly characters: number
  /** Whether its caller has heard how it ended. */
  isOver: boolean
  /** Called when its caller gives it up. */
  onGivenUp: (reason: unknown) => void
}

/**
 * Lets statements outside of transactions that are issued in the same tick of the event loop share requests: reads with
 * reads, and writes with writes in their order. A read in a request with a write would wait for the write lock, also when
 * the transaction that holds the lock awaits that read. Each statement has its own result or error, and its own deadline and
 * signal; none depends on another.
 */
export class Coalescer {
  readonly #http: Http
  /**
   * One request with writes at a time: two that have several each get in each other's way on libsql-server, which takes twice
   * as long then, and now and then answers SQLITE_BUSY.
   */
  readonly #writes: Limiter
  #waiting: Entry[] = []

  constructor(http: Http) {
    this.#http = http
    this.#writes = new Limiter(http.lifetime, 1, http.config.queueLimit)
  }

  /** Sends a call with others. Settles when the call is settled. */
  send({ resolve, reject, ...call }: QueuedCall): Promise<void> {
    return new Promise((done) => {
      const { clock, config } = this.#http
      const { deadline, options } = call
      const late = (): Error =>
        timeoutError(deadline.timeoutMs, config.address.origin, entry.operation.isEncoded)
      const watch = new Deferred(clock, { ms: deadline.leftMs, signal: options.signal, late })
      const end = (): void => {
        entry.isOver = true
        watch.resolve()
        done()
      }
      const fail = (error: unknown): void => {
        end()
        reject(error)
      }
      const whole: QueuedCall = {
        ...call,
        resolve(results) {
          end()
          resolve(results)
        },
        reject: fail,
      }
      const entry: Entry = {
        operation: new SqlRequest([whole]),
        characters: call.statements[0]?.json.length ?? 0,
        isOver: false,
        onGivenUp: () => {},
      }
      watch.promise.catch((reason: unknown) => {
        fail(reason)
        entry.onGivenUp(reason)
      })
      if (this.#waiting.push(entry) === 1) soon(this.#flush)
    })
  }

  readonly #flush = (): void => {
    const waiting = this.#waiting.filter(({ isOver }) => !isOver)
    this.#waiting = []
    const writes = waiting.filter(({ operation }) => operation.writes)
    const reads = waiting.filter(({ operation }) => !operation.writes)
    for (const entries of [...this.#requests(reads), ...this.#requests(writes)]) void this.#send(entries)
  }

  /** Divides calls among requests. */
  #requests(entries: readonly Entry[]): Entry[][] {
    const requests: Entry[][] = []
    let room = 0
    for (const entry of entries) {
      const last = requests.at(-1)
      room -= entry.characters
      if (last && last.length < COALESCED_STATEMENTS && room >= 0) last.push(entry)
      else {
        requests.push([entry])
        room = COALESCED_CHARACTERS - entry.characters
      }
    }
    return requests
  }

  async #send(entries: readonly Entry[]): Promise<void> {
    const operations = entries.map(({ operation }) => operation)
    const calls = operations.flatMap(({ calls: [call] }) => call ?? [])
    const { deadline } = calls.reduce((a, b) => (b.deadline.endsAt > a.deadline.endsAt ? b : a))
    const givenUp = new AbortController()
    for (const entry of entries) {
      const onGivenUp = (reason: unknown): void => {
        // its request goes without it, or has left
        if (!entry.operation.isEncoded) operations.splice(operations.indexOf(entry.operation), 1)
        if (entries.every(({ isOver }) => isOver)) givenUp.abort(reason)
      }
      entry.onGivenUp = onGivenUp
    }
    try {
      await sendStateless(this.#http, operations, { deadline, signal: givenUp.signal }, this.#writes)
    } catch (error) {
      for (const call of calls) call.reject(copyOf(error))
    }
  }
}

/** Calls back when this tick of the event loop is over. */
function soon(callback: () => void): void {
  if (typeof setImmediate === 'function') setImmediate(callback)
  else setTimeout(callback)
}

/** An error of its own for each call, whose stack will show who made it. */
function copyOf(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const copy = new Error(error.message, 'cause' in error ? { cause: error.cause } : {})
  Object.setPrototypeOf(copy, Object.getPrototypeOf(error) as object)
  return Object.assign(copy, error)
}
