import { inNextTurn } from '#next-turn'
import type { Deferred } from '../base/deferred.ts'
import { HttpError, ProtocolError } from '../base/errors.ts'
import { MAX_COALESCED_CHARACTERS, MAX_COALESCED_STATEMENTS } from '../base/limits.ts'
import type { Coalesce } from '../config.ts'
import type { Http } from '../http/http.ts'
import { timeoutError } from '../transport/failure.ts'
import type { Results, StatementsCall } from './queued-call.ts'
import { sendStateless } from './send-stateless.ts'
import { SqlRequest } from './sql-request.ts'

/** A call that shares a request with others. */
interface Entry {
  readonly operation: SqlRequest
  /** Settles with the result, or error, of the call. */
  readonly waiter: Deferred<Results>
  readonly characters: number
  /** Called when the call is rejected, for example because its caller has aborted it. */
  onReject: (reason: unknown) => void
}

/**
 * Coalesces statements outside of transactions that are issued in the same tick of the event loop: reads with reads, and
 * writes with writes in order. A read in the same request as a write would wait for the write lock, even if the transaction
 * that holds it awaits that read. Each statement has its own result or error, deadline and signal; none depends on another.
 */
export class Coalescer {
  readonly #http: Http
  #waiting: Entry[] = []

  constructor(http: Http) {
    this.#http = http
  }

  /** Sends a call together with others. Resolves when the call has settled. */
  send({ resolve, reject, ...call }: StatementsCall): Promise<void> {
    const { config, lifetime, writeLock } = this.#http
    const { deadline, options } = call
    const mayHaveRun = (): boolean => operation.isEncoded && !operation.isReadOnly
    const onTimeout = (): Error => {
      const hint = operation.isEncoded && operation.needsWriteLock ? writeLock.hint() : ''
      return timeoutError(deadline.timeoutMs, config.address.origin, mayHaveRun(), hint)
    }
    const waiter = lifetime.wait<Results>({ deadline, signal: options.signal, onTimeout, mayHaveRun })
    const operation = new SqlRequest([{ ...call, resolve: waiter.resolve, reject: waiter.reject }])
    const characters = call.statements[0]?.json.length ?? 0
    const entry: Entry = { operation, waiter, characters, onReject: () => {} }
    if (this.#waiting.push(entry) === 1) inNextTurn(this.#flush)
    return waiter.promise.then(resolve, (reason: unknown) => {
      reject(reason)
      entry.onReject(reason)
    })
  }

  readonly #flush = (): void => {
    const unsettledEntries = this.#waiting.filter(({ waiter }) => !waiter.isSettled)
    this.#waiting = []
    const writes = unsettledEntries.filter(({ operation }) => operation.needsWriteLock)
    const reads = unsettledEntries.filter(({ operation }) => !operation.needsWriteLock)
    // the requests of writes are sent one after the other, in this order (`coalescedWrites`)
    for (const entries of [...this.#divide(reads), ...this.#divide(writes)]) void this.#send(entries)
  }

  /**
   * Divides calls among requests. Writes that return rows share requests only with each other: if a row cannot be encoded as JSON,
   * the server rejects the whole request, and the outcome of every write in it is unknown.
   */
  #divide(entries: readonly Entry[]): Entry[][] {
    const requests: Entry[][] = []
    let remaining = 0
    for (const entry of entries) {
      const lastRequest = requests.at(-1)
      remaining -= entry.characters
      const isSameKind = lastRequest?.[0] && returnsRows(lastRequest[0]) === returnsRows(entry)
      if (isSameKind && lastRequest.length < MAX_COALESCED_STATEMENTS && remaining >= 0)
        lastRequest.push(entry)
      else {
        requests.push([entry])
        remaining = MAX_COALESCED_CHARACTERS - entry.characters
      }
    }
    return requests
  }

  async #send(entries: readonly Entry[]): Promise<void> {
    const operations = entries.map(({ operation }) => operation)
    const calls = operations.flatMap(({ calls: [call] }) => call ?? [])
    const { deadline } = calls.reduce((a, b) => (b.deadline.endsAt > a.deadline.endsAt ? b : a))
    const controller = new AbortController()
    for (const entry of entries) {
      entry.onReject = (reason) => {
        // removes the statement from the request, unless that was already sent
        if (!entry.operation.isEncoded) operations.splice(operations.indexOf(entry.operation), 1)
        if (entries.every(({ waiter }) => waiter.isSettled)) controller.abort(reason)
      }
    }
    try {
      const { coalescedWrites } = this.#http
      await sendStateless(this.#http, operations, { deadline, signal: controller.signal }, coalescedWrites)
    } catch (error) {
      const unsettledEntries = entries.filter(({ waiter }) => !waiter.isSettled)
      const canSendAlone = operations.every(({ isReadOnly }) => isReadOnly) && mayComeFromOneResult(error)
      // compares the number of operations, not of pending calls, because an aborted call may have caused the error
      if (operations.length > 1 && canSendAlone)
        for (const entry of unsettledEntries) void this.#send([entry])
      else for (const call of calls) call.reject(error)
    }
  }
}

/** For the option `coalesce` of {@link ClientConfig}: coalesces statements that are issued in the same tick of the event loop. */
export const coalesce: Coalesce = (http: Http) => new Coalescer(http)

const returnsRows = ({ operation }: Entry): boolean =>
  operation.needsWriteLock && /\breturning\b/i.test(operation.calls[0]?.statements[0]?.sql ?? '')

/** Whether the result of one statement may have failed the whole request. */
const mayComeFromOneResult = (error: unknown): boolean =>
  error instanceof ProtocolError || (error instanceof HttpError && error.status === 500)
