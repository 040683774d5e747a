import { Worker } from 'node:worker_threads'
import type { DatabaseId, DatabaseSettings, QueryUsage } from '@batonsql/server-common/backend'
import { type Permissions, PipelineFailure } from '@batonsql/server-common/hrana'
import { isFreeingFlag } from './engine/keep-machine-code.ts'
import { getBuffers, type JsonText } from './protocol/json-text.ts'
import { packWork } from './protocol/packed-work.ts'
import { nextCallNumber, SharedCallState } from './protocol/shared-call-state.ts'
import type {
  CallOutcome,
  CallWork,
  DatabaseToOpen,
  FromWorker,
  Reply,
  TableChanges,
  ToWorker,
  WorkerRequest,
  WorkerStart,
} from './protocol/worker-messages.ts'

/** How long another call of the same database may wait before the running statement, and later ones of its call, are interrupted. */
const MAX_BLOCKING_MS = 60_000
/** How long a statement may take to end after its call was interrupted; then its worker is terminated. */
const INTERRUPT_GRACE_MS = 2_000
/** How long a worker may take to close its connections. */
const CLOSE_GRACE_MS = 2_000
const PROGRESS_CHECK_INTERVAL_MS = 200
const LOG_TAIL_CHARACTERS = 2_000
/** Stack size of a worker. SQLite recurses, for example for each wildcard of a LIKE; the largest accepted input needs less. */
const STACK_MB = 32
/**
 * Limit for a worker's memory for short-lived objects. Without a limit, that memory grows to 130 MB; a lower limit slows down
 * large batches.
 */
const YOUNG_GENERATION_MB = 24

/** The error of a call that was running when its worker was shut down. */
const CLOSED_MEANWHILE =
  'the database was closed while this request was running; it is unknown whether it was applied'

/** Thrown if the worker exited or was given another database before it began a call. The call can be retried. */
export class NotBegunError extends Error {}

/** Receives the text of a cursor while it runs. */
export interface CursorListener {
  onBegin(): void
  onLines(text: JsonText): void
}

/** Properties common to all calls. */
export interface DatabaseCall {
  /** The database that the worker must have open. */
  readonly id: DatabaseId
  /** Number of the stream; the worker keeps a session for each. */
  readonly stream: number
  readonly permissions: Permissions
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
}

/** Receives messages from a worker that do not belong to a call. */
export interface WorkerListener {
  /** Called when the worker has closed its database, or has exited. */
  onClosed(worker: DatabaseWorker, database: DatabaseId | null): void
  /** Called when a transaction of a watched database was committed. */
  onChanges(database: DatabaseId, changes: readonly TableChanges[]): void
  /** Handles a request from the worker that concerns other databases. Never rejects. */
  onRequest(database: DatabaseId, request: WorkerRequest): Promise<Reply>
  /** Receives the usage of the worker's database. */
  onUsage(database: DatabaseId, usage: readonly QueryUsage[]): void
}

export interface RunningCursor {
  readonly outcome: Promise<CallOutcome>
  /** Requests the next chunk. */
  readonly readMore: () => void
  /** Interrupts the statement and skips those that have not begun, because the response is no longer needed. */
  readonly abandon: () => void
}

interface PendingCall {
  readonly resolve: (outcome: CallOutcome) => void
  readonly reject: (error: Error) => void
  readonly listener: CursorListener | null
  /** When the call began to wait for the worker, according to `performance.now()`; Infinity while its reader has a chunk. */
  waitingSince: number
}

/** A worker thread that runs the engine for one database at a time. */
export class DatabaseWorker {
  readonly #worker: Worker
  readonly #state = new SharedCallState()
  /** Resolves with SQLite's version when the worker is ready; rejects if the engine cannot be started. */
  readonly ready: Promise<string>
  readonly #calls = new Map<number, PendingCall>()
  readonly #listener: WorkerListener
  #database: DatabaseId | null = null
  #lastCall = 0
  #progressTimer: NodeJS.Timeout | null = null
  /** The statement that the engine was last seen executing: when it was first seen, and when it was interrupted. */
  #seen: { execution: number; since: number; interruptedAt: number | null } | null = null
  #log = ''
  #hasExited = false
  #isShuttingDown = false
  #isReusable = true
  /** Pending while the worker closes its database. */
  #release: PromiseWithResolvers<void> | null = null
  #lastIndex: bigint | null = null
  /** When the database was last used, according to `performance.now()`. Set by the pool. */
  lastUsedAt = 0

  constructor(module: WebAssembly.Module, listener: WorkerListener) {
    this.#listener = listener
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    // the user has asked V8 to free machine code: see `keepMachineCode`
    const freesMachineCode = process.execArgv.some(isFreeingFlag)
    const workerData: WorkerStart = { module, freesMachineCode, state: this.#state.memory }
    this.#worker = new Worker(new URL(`./engine/engine-worker.${extension}`, import.meta.url), {
      workerData,
      // does not inherit flags of this process, such as a debugger's port or a test runner's loader
      execArgv: extension === 'ts' ? sourceFlags() : [],
      env: {},
      resourceLimits: { stackSizeMb: STACK_MB, maxYoungGenerationSizeMb: YOUNG_GENERATION_MB },
      stderr: true,
    })
    const ready = Promise.withResolvers<string>()
    this.ready = ready.promise
    this.#worker.on('message', (message: FromWorker) => {
      if (message.type === 'ready') ready.resolve(message.sqliteVersion)
      else this.#receive(message)
    })
    this.#worker.once('error', (error) => {
      this.#log += `${error.name}: ${error.message}\n`
    })
    this.#worker.once('exit', (code) => {
      ready.reject(new Error(`the engine could not be started: ${this.#log}`))
      this.#onExit(code)
    })
    this.#worker.stderr.on('data', (chunk: Buffer) => {
      this.#log = (this.#log + chunk.toString('utf8')).slice(-LOG_TAIL_CHARACTERS)
    })
    ready.promise.then(
      () => this.#detachIfIdle(),
      () => {}, // callers of `ready` receive the error
    )
  }

  get hasExited(): boolean {
    return this.#hasExited
  }

  /** Whether the worker may be given another database. If not, it must be shut down: the memory of its engine is large, and cannot shrink. */
  get isReusable(): boolean {
    return this.#isReusable
  }

  /** The replication index of the database that it closed last at a `release`; null for none. */
  get lastIndex(): bigint | null {
    return this.#lastIndex
  }

  get isBusy(): boolean {
    return this.#calls.size > 0
  }

  open(database: DatabaseToOpen): void {
    this.#database = database.id
    this.#send({ type: 'open', ...database })
  }

  applySettings(settings: DatabaseSettings): void {
    this.#send({ type: 'settings', settings })
  }

  /**
   * Runs a call. Rejects with a `PipelineFailure` if the worker exits during the call, and with a `NotBegunError` if the call was
   * not begun.
   */
  run(call: DatabaseCall, work: CallWork): Promise<CallOutcome> {
    return this.#call(call, work, null).outcome
  }

  /** Runs a call that produces text in chunks. `listener` receives the first at once, and another for each `readMore`. */
  stream(call: DatabaseCall, work: CallWork, listener: CursorListener): RunningCursor {
    return this.#call(call, work, listener)
  }

  /** Starts or stops reporting committed changes. */
  watch(isWatched: boolean): void {
    this.#send({ type: 'watch', isWatched })
  }

  /** Returns to the worker the buffers of a text that is no longer needed. */
  recycle(text: JsonText): void {
    const buffers = getBuffers(text)
    if (!this.#hasExited) this.#worker.postMessage({ type: 'recycle', buffers } satisfies ToWorker, buffers)
  }

  closeStream(stream: number): void {
    this.#send({ type: 'close-stream', stream })
  }

  /**
   * Closes the database, so that the worker can be given another. If calls are in flight, shuts the worker down instead.
   * `keepsFiles: false` means that the files are about to be removed. Later calls are rejected with a `NotBegunError`.
   */
  async release({ keepsFiles }: { readonly keepsFiles: boolean }): Promise<void> {
    if (this.#hasExited) return
    if (this.#release === null) {
      if (this.isBusy) return await this.shutDown()
      this.#release = Promise.withResolvers()
      this.#worker.ref()
      this.#send({ type: 'release', keepsFiles })
    }
    await this.#release.promise
  }

  /**
   * Ends the worker after it has closed its connections; running statements are interrupted. Acknowledged writes are kept, open
   * transactions are rolled back.
   */
  async shutDown(): Promise<void> {
    if (this.#hasExited) return
    // `once` of node:events would reject if the worker has failed
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve))
    this.#isShuttingDown = true
    this.#worker.ref()
    this.#state.shutDown()
    this.#send({ type: 'shut-down' })
    const timer = setTimeout(() => void this.terminate(), CLOSE_GRACE_MS)
    await exited
    clearTimeout(timer)
  }

  /** Ends the worker at once: it closes nothing, and so writes nothing. */
  async terminate(): Promise<void> {
    this.#isShuttingDown = true
    await this.#worker.terminate()
  }

  #call(call: DatabaseCall, work: CallWork, listener: CursorListener | null): RunningCursor {
    this.#lastCall = nextCallNumber(this.#lastCall)
    const number = this.#lastCall
    const { id, stream, permissions, signal } = call
    const abandon = (): void => this.#abandonCall(number)
    const { promise, resolve, reject } = Promise.withResolvers<CallOutcome>()
    const outcome = promise.finally(() => signal.removeEventListener('abort', abandon))
    const pending = { listener, resolve, reject, waitingSince: performance.now() }
    const readMore = (): void => {
      pending.waitingSince = performance.now()
      this.#send({ type: 'cursor-read', call: number })
    }
    // a released worker may have another database by now
    if (this.#hasExited || this.#database !== id) reject(new NotBegunError('the database was closed'))
    else {
      this.#calls.set(number, pending)
      // while the database is being closed, a call is not sent: `#onReleased` rejects it
      if (this.#release === null) {
        this.#send({ ...packWork(work), call: number, stream, permissions })
        this.#progressTimer ??= setInterval(() => this.#checkProgress(), PROGRESS_CHECK_INTERVAL_MS).unref()
        if (signal.aborted) abandon()
        else signal.addEventListener('abort', abandon)
      }
    }
    return { outcome, abandon, readMore }
  }

  /** Called when the result of a call is not needed: interrupts its statement, and skips those that have not begun. */
  #abandonCall(number: number): void {
    if (!this.#calls.has(number)) return // already finished
    this.#state.abandon(number)
    this.#send({ type: 'abandon', call: number })
  }

  #receive(message: Exclude<FromWorker, { readonly type: 'ready' }>): void {
    if (message.type === 'released') return this.#onReleased(message)
    const id = this.#database
    if (id === null) return
    if (message.type === 'request') return void this.#handleRequest(id, message.number, message.request)
    if (message.type === 'changes') return this.#listener.onChanges(id, message.changes)
    if (message.type === 'outcome') this.#listener.onUsage(id, message.usage)
    const pending = this.#calls.get(message.call)
    if (pending === undefined) return
    if (message.type === 'cursor-begin') pending.listener?.onBegin()
    else if (message.type === 'cursor-lines') {
      pending.waitingSince = Number.POSITIVE_INFINITY
      pending.listener?.onLines(message.text)
    } else {
      this.#calls.delete(message.call)
      this.#detachIfIdle()
      pending.resolve(message.outcome)
    }
  }

  async #handleRequest(id: DatabaseId, number: number, request: WorkerRequest): Promise<void> {
    this.#send({ type: 'reply', number, reply: await this.#listener.onRequest(id, request) })
  }

  /** Interrupts a statement for which another call has waited too long, and terminates the worker if that has no effect. */
  #checkProgress(): void {
    const { current, execution } = this.#state
    const now = performance.now()
    if (this.#seen?.execution !== execution) this.#seen = { execution, since: now, interruptedAt: null }
    if (current === 0) return
    const latestStart = now - MAX_BLOCKING_MS
    if (this.#seen.since < latestStart && this.#hasWaitedSince(latestStart, current))
      this.#state.interrupt(current)
    if (!this.#state.isInterrupted) return
    this.#seen.interruptedAt ??= now
    if (now - this.#seen.interruptedAt > INTERRUPT_GRACE_MS) void this.terminate()
  }

  /** Whether a call other than the current one has been waiting since before a time. */
  #hasWaitedSince(time: number, current: number): boolean {
    for (const [number, { waitingSince }] of this.#calls)
      if (number !== current && waitingSince < time) return true
    return false
  }

  #onReleased({ isReusable, lastIndex }: Extract<FromWorker, { type: 'released' }>): void {
    this.#isReusable = isReusable
    this.#lastIndex = lastIndex
    if (this.#isShuttingDown) return // it will exit
    const release = this.#release
    this.#release = null
    this.#failCalls('the database was closed')
    this.#onDatabaseClosed()
    release?.resolve()
  }

  #onExit(code: number): void {
    this.#hasExited = true
    this.#failCalls(`it exited with code ${code}${this.#loggedError()}`)
    this.#onDatabaseClosed()
    this.#release?.resolve()
  }

  #onDatabaseClosed(): void {
    const id = this.#database
    this.#database = null
    this.#listener.onClosed(this, id)
  }

  /** Returns the first error in the tail of the worker's log, in parentheses; empty if there is none. */
  #loggedError(): string {
    const error = /^\w*Error: .*$/m.exec(this.#log)?.[0]
    return error === undefined ? '' : ` (${error})`
  }

  /** Rejects all pending calls: as failed if they have begun, and otherwise so that they can be retried. */
  #failCalls(reason: string): void {
    const failure = this.#state.isShuttingDown
      ? PipelineFailure.service(502, CLOSED_MEANWHILE)
      : PipelineFailure.service(500, `Internal Error: \`the engine of this database failed: ${reason}\``)
    for (const [number, { reject }] of this.#calls) {
      const error = this.#state.hasBegun(number) ? failure : new NotBegunError(reason)
      reject(error)
    }
    this.#calls.clear()
    this.#detachIfIdle()
  }

  #send(message: ToWorker): void {
    if (this.#hasExited) return
    // a worker with pending calls keeps the process alive, an idle one does not
    if (this.#calls.size > 0) this.#worker.ref()
    this.#worker.postMessage(message)
  }

  #detachIfIdle(): void {
    if (this.#calls.size > 0) return
    if (this.#progressTimer !== null) clearInterval(this.#progressTimer)
    this.#progressTimer = null
    this.#seen = null
    if (!this.#isShuttingDown) this.#worker.unref()
  }
}

/** Returns the flags of a worker that runs from source. They enable this process's compile cache, which threads do not inherit. */
function sourceFlags(): string[] {
  const flags = ['--disable-warning=ExperimentalWarning']
  const cache = process.env['NODE_COMPILE_CACHE']
  if (cache === undefined) return flags
  const program = `import { enableCompileCache } from 'node:module'; enableCompileCache(${JSON.stringify(cache)})`
  return [...flags, '--import', `data:text/javascript,${encodeURIComponent(program)}`]
}
