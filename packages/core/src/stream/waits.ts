import type { Clock } from '../base/clock.ts'
import type { Deadline } from '../base/deadline.ts'
import { Deferred } from '../base/deferred.ts'
import { TransportError } from '../base/errors.ts'

/** Calls of a stream that wait for something else than a request, to be rejected when nothing more can be run. */
export class Waits {
  readonly #waiters = new Set<Deferred>()

  /** Waits for something else to end, such as a savepoint. @throws TransportError; the signal's reason */
  async wait(
    event: Promise<unknown>,
    what: string,
    clock: Clock,
    { leftMs, timeoutMs }: Deadline,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const late = (): Error =>
      new TransportError('TIMEOUT', `${what} was not over within ${timeoutMs} ms`, 'not_applied')
    const onEnd = (): void => void this.#waiters.delete(waiter)
    const waiter: Deferred = new Deferred(clock, { ms: leftMs, signal, late, onEnd })
    this.#waiters.add(waiter)
    void event.then(() => waiter.resolve())
    await waiter.promise
  }

  rejectAll(makeError: () => Error): void {
    for (const waiter of this.#waiters) waiter.reject(makeError())
  }
}
