import type { CallPlan, Sql } from './history.ts'
import type { Call, CallKind, Ledger, Scope } from './ledger.ts'
import { PlannedError } from './planned-error.ts'
import { WRITING } from './statement-texts.ts'
import { createWatchedSignal, type WatchedSignal } from './watched-signal.ts'
import { type World, waitForMicrotasks } from './world.ts'

/** Options of every call. */
export type Options = { signal?: AbortSignal; timeoutMs?: number }

/** Makes calls, with their time limits and signals, and records their outcomes in the ledger. */
export class CallTracker {
  /** Signals passed to calls, with their listeners. */
  readonly signals: WatchedSignal[] = []
  readonly #world: World
  readonly #ledger: Ledger
  #tag = 0

  constructor(world: World, ledger: Ledger) {
    this.#world = world
    this.#ledger = ledger
  }

  /** Records a call in the ledger, and assigns a unique number to each row that it writes. */
  open(scope: Scope, operation: CallKind, plan: CallPlan, sql: readonly Sql[] = [], name = ''): Call {
    const tags = sql.map((text) => (WRITING.has(text) ? (this.#tag += 1) : null))
    return this.#ledger.recordCall(scope, operation, plan, { sql, tags, name })
  }

  /** Makes a call with its time limit and signal, and records how it ends. */
  track(call: Call, makeCall: (options: Options) => unknown): Promise<unknown> {
    const options: Options = {}
    const { timeoutMs, abortMs, abortTicks } = call.plan
    if (timeoutMs !== undefined) options.timeoutMs = timeoutMs
    if (abortMs !== undefined || abortTicks !== undefined) {
      const watchedSignal = createWatchedSignal()
      this.signals.push(watchedSignal)
      const { controller } = watchedSignal
      options.signal = controller.signal
      call.reason = new PlannedError(`call ${call.id} was aborted`)
      const abort = (): void => {
        // half of the signals are not aborted after their call has settled, because many programs never abort theirs
        if (call.state !== 'pending' && call.id % 2 === 0) return
        // calls that had already settled were not aborted
        if (call.state === 'pending') {
          call.isAborted = true
          call.abortedAt = this.#world.now
        }
        controller.abort(call.reason)
      }
      if (abortMs === -1) abort()
      else if (abortMs !== undefined) this.#world.after(abortMs, abort)
      else void waitForMicrotasks(abortTicks ?? 0).then(abort)
    }
    const result = (async () => await makeCall(options))()
    return result.then(
      (value) => {
        this.#ledger.succeed(call, value)
        return value
      },
      (error: unknown) => {
        this.#ledger.fail(call, error)
        throw error
      },
    )
  }
}
