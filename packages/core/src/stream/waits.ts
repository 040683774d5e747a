import type { Deadline } from '../base/deadline.ts'
import type { Deferred } from '../base/deferred.ts'
import { TransportError } from '../base/errors.ts'
import type { Lifetime } from '../http/lifetime.ts'

/** Calls of a stream that wait for something else than a request, to be rejected when nothing more can be run. */
export class Waits {
  readonly #waiters = new Set<Deferred>()
  readonly #lifetime: Lifetime

  constructor(lifetime: Lifetime) {
    this.#lifetime = lifetime
  }

  /** Waits for something else to end, such as a savepoint. @throws TransportError; the signal's reason */
  async wait(
    event: Promise<unknown>,
    what: string,
    deadline: Deadline,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const onTimeout = (): Error =>
      new TransportError('TIMEOUT', `${what} did not end within ${deadline.timeoutMs} ms`, 'not_applied')
    const onEnd = (): void => void this.#waiters.delete(waiter)
    const waiter: Deferred = this.#lifetime.wait({ deadline, signal, onTimeout, onEnd })
    this.#waiters.add(waiter)
    void event.then(() => waiter.resolve())
    await waiter.promise
  }

  rejectAll(makeError: () => Error): void {
    for (const waiter of this.#waiters) waiter.reject(makeError())
  }
}
