import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers'
import { seeded } from '../../support/random.ts'

/** An event at a point in time. */
interface Timer {
  readonly at: number
  readonly order: number
  /** Null after it has been canceled. */
  callback: (() => void) | null
  /** Whether code under test has set it. */
  readonly isFromClient: boolean
}

/** The start of simulated time, in ms since the epoch. */
const EPOCH = 1_700_000_000_000

const { any } = AbortSignal
const real = { setImmediate, now: performance.now.bind(performance) }
let currentWorld: World | null = null

/**
 * The time, timers and randomness of one history. Time stands still while code can run, and then jumps to the next timer, so
 * that a history of hours takes milliseconds and is the same each time.
 */
export class World {
  now = 0
  /** Counts turns of the event loop: two events with the same number happened in the same turn. */
  turn = 0
  readonly random: () => number
  readonly #chance: () => number
  /** Uncaught errors. */
  readonly uncaught: unknown[] = []
  /** Called when the next event is this many ms away. */
  onPause: (ms: number) => void = () => {}
  /** Latest first. */
  readonly #timers: Timer[] = []
  readonly #immediates: Timer[] = []
  #order = 0

  /** Whether `AbortSignal.any` exists. */
  readonly hasAbortSignalAny: boolean

  constructor(seed: number) {
    this.hasAbortSignalAny = seed % 2 === 0
    this.random = seeded(seed)
    this.#chance = seeded(seed + 1)
  }

  /** Makes this world the source of time for the globals. */
  enter(): void {
    enter(this)
  }

  /** Calls a function after a delay. @returns a function that cancels it */
  after(ms: number, callback: () => void): () => void {
    const timer = this.#add(this.now + ms, callback, false)
    return () => {
      timer.callback = null
    }
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.after(ms, resolve)
    })
  }

  /** Number of timers of the code under test. */
  get clientTimers(): number {
    return this.#timers.filter(({ isFromClient, callback }) => isFromClient && callback).length
  }

  setTimeout(callback: () => void, ms: number): Timer {
    return this.#add(this.now + Math.max(1, Math.trunc(ms) || 0), callback, true)
  }

  setImmediate(callback: () => void): Timer {
    const timer = { at: this.now, order: 0, callback, isFromClient: true }
    this.#immediates.push(timer)
    return timer
  }

  #add(at: number, callback: () => void, isFromClient: boolean): Timer {
    const timer = { at, order: (this.#order += 1), callback, isFromClient }
    let index = this.#timers.length
    while (index > 0 && (this.#timers[index - 1] as Timer).at <= at) index -= 1
    this.#timers.splice(index, 0, timer)
    return timer
  }

  /**
   * Runs events until a condition is true.
   * @returns whether the condition became true; if not, no events are left, or the time limit has passed
   */
  async runUntil(isDone: () => boolean, until = Infinity): Promise<boolean> {
    for (;;) {
      await new Promise<void>((resolve) => real.setImmediate(resolve))
      this.turn += 1
      if (isDone()) return true
      const next = this.#next(until)
      if (!next) return false
      if (next.at > this.now) this.onPause(next.at - this.now)
      const { callback } = next
      next.callback = null
      this.now = Math.max(this.now, next.at)
      try {
        callback?.()
      } catch (error) {
        this.uncaught.push(error)
      }
    }
  }

  #next(until: number): Timer | undefined {
    while (this.#timers.at(-1)?.callback === null) this.#timers.pop()
    const next = this.#timers.at(-1)
    // timers that are due in the same millisecond may run in either order
    const isTimerFirst = next !== undefined && next.at <= this.now && this.#chance() < 0.5
    const immediate = isTimerFirst ? undefined : this.#immediates.shift()
    if (immediate) return immediate
    if (next && next.at > until) {
      this.now = until
      return undefined
    }
    return this.#timers.pop()
  }
}

/** Waits for this many microtasks. */
export async function waitForMicrotasks(count: number): Promise<void> {
  for (let index = 0; index < count; index++) await Promise.resolve()
}

function getWorld(): World {
  if (!currentWorld) throw new Error('no world has been entered')
  return currentWorld
}

/** Creates an object with the methods of node's timers. */
function createHandle(timer: Timer): object {
  const handle = { timer, ref: () => handle, unref: () => handle, hasRef: () => true }
  return handle
}

const clear = (handle: unknown): void => {
  const { timer } = (handle ?? {}) as { timer?: Timer }
  if (timer) timer.callback = null
}

let isInstalled = false

function enter(world: World): void {
  install()
  // not every platform has AbortSignal.any
  if (world.hasAbortSignalAny) Object.assign(AbortSignal, { any })
  else Reflect.deleteProperty(AbortSignal, 'any')
  currentWorld = world
}

/** Permanently replaces the clock, the timers and the random numbers of this process. */
function install(): void {
  if (isInstalled) return
  isInstalled = true
  const globals = {
    setTimeout: (callback: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) =>
      createHandle(getWorld().setTimeout(() => callback(...args), ms)),
    clearTimeout: clear,
    setImmediate: (callback: (...args: unknown[]) => void, ...args: unknown[]) =>
      createHandle(getWorld().setImmediate(() => callback(...args))),
    clearImmediate: clear,
  }
  Object.assign(globalThis, globals)
  Object.assign(timers, globals)
  syncBuiltinESMExports()
  Object.defineProperty(performance, 'now', { value: () => getWorld().now })
  Object.defineProperty(performance, 'timeOrigin', { value: EPOCH })
  Date.now = () => EPOCH + getWorld().now
  Math.random = () => getWorld().random()
  process.on('unhandledRejection', (reason) => getWorld().uncaught.push(reason))
}

/** Returns the real time since the start of the process, in ms. */
export const realNow = real.now
