import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { DatabaseId, DatabaseSettings } from '../backend/backend.ts'
import { PipelineFailure } from '../hrana/pipeline-failure.ts'
import type { Permissions } from '../hrana/pipeline-types.ts'
import { SharedCallState } from './protocol/shared-call-state.ts'
import type {
  CallOutcome,
  CallWork,
  FromWorker,
  OpenedDatabase,
  Reply,
  StatementUsage,
  TableChanges,
  ToWorker,
  WorkerRequest,
  WorkerStart,
} from './protocol/worker-messages.ts'

/** How long a statement may keep other calls of its database waiting before it is interrupted. */
const MAX_BLOCKING_MS = 60_000
/** How long an interrupted statement has to end before its worker is ended. */
const INTERRUPT_GRACE_MS = 2_000
/** How long a worker has to close its connections at the end. */
const CLOSE_GRACE_MS = 2_000
const WATCH_INTERVAL_MS = 200
const LOG_TAIL_CHARACTERS = 2_000
/** SQLite calls itself, for instance once for each wildcard of a LIKE; what it is given at most needs less. */
const STACK_MB = 32
/** Numbers of calls fit the cells of the shared state. */
const LAST_CALL = 0x7fffffff

/** The worker has ended, or works for another database, before it began with a call: the call can be made again. */
export class NotBegunError extends Error {}

/** Receives a cursor's text while it runs. */
export interface CursorListener {
  begin(): void
  lines(text: string): void
}

/** What every call says. */
export interface DatabaseCall {
  /** The database that the worker has to have open. */
  readonly id: DatabaseId
  readonly stream: number
  readonly permissions: Permissions
  /** Aborts when the client has left. */
  readonly signal: AbortSignal
}

/** What a worker reports without a call that asks for it. */
export interface WorkerListener {
  /** The worker has let go of its database, or is gone. */
  onClosed(worker: DatabaseWorker, database: DatabaseId | null): void
  /** A transaction has been committed, of a database that is watched. */
  onChanges(database: DatabaseId, changes: readonly TableChanges[]): void
  /** The worker asks for something of other databases. Never rejects. */
  onRequest(database: DatabaseId, request: WorkerRequest): Promise<Reply>
  /** What the worker's database was used for. */
  onUsage(database: DatabaseId, usage: readonly StatementUsage[]): void
}

/** A cursor on its way. */
export interface RunningCursor {
  readonly outcome: Promise<CallOutcome>
  /** Asks for the next piece. */
  readonly readOn: () => void
  /** The answer is not wanted any more: the statement is interrupted, and what has not begun will not begin. */
  readonly abandon: () => void
}

interface PendingCall {
  readonly resolve: (outcome: CallOutcome) => void
  readonly reject: (error: Error) => void
  readonly onText: CursorListener | null
}

/** A worker thread that runs the engine for one database at a time. */
export class DatabaseWorker {
  readonly #worker: Worker
  readonly #state = new SharedCallState()
  /** Resolves with the engine's version once the worker can work. */
  readonly ready: Promise<string>
  readonly #calls = new Map<number, PendingCall>()
  readonly #listener: WorkerListener
  #database: DatabaseId | null = null
  #lastCall = 0
  #watch: NodeJS.Timeout | null = null
  #busy: { call: number; since: number; interruptedAt: number | null } | null = null
  #log = ''
  #isDead = false
  #isEnding = false
  /** While the worker lets go of its database. */
  #release: PromiseWithResolvers<void> | null = null
  /** When the database was last asked for, by `performance.now()`. */
  lastUse = 0

  constructor(module: WebAssembly.Module, listener: WorkerListener) {
    this.#listener = listener
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const workerData: WorkerStart = { module, state: this.#state.memory }
    this.#worker = new Worker(new URL(`./engine/engine-worker.${extension}`, import.meta.url), {
      workerData,
      // flags of ours, such as an inspector's port or a test runner's loader, are not for it; Deno knows none
      execArgv: extension === 'ts' ? ['--disable-warning=ExperimentalWarning'] : [],
      env: {},
      resourceLimits: { stackSizeMb: STACK_MB },
      stdout: true,
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
      this.#exited(`code ${code}`)
    })
    this.#worker.stderr.on('data', (chunk: Buffer) => {
      this.#log = (this.#log + chunk.toString('utf8')).slice(-LOG_TAIL_CHARACTERS)
    })
    ready.promise.then(
      () => this.#detach(),
      () => {}, // reported to the caller of `ready`
    )
  }

  get isDead(): boolean {
    return this.#isDead
  }

  get isBusy(): boolean {
    return this.#calls.size > 0
  }

  open(database: OpenedDatabase): void {
    this.#database = database.id
    this.#send({ type: 'open', ...database })
  }

  applySettings(settings: DatabaseSettings): void {
    this.#send({ type: 'settings', settings })
  }

  /** Runs a call to its end. Its outcome rejects with a `PipelineFailure` when the worker ends meanwhile. */
  run(call: DatabaseCall, work: CallWork): Promise<CallOutcome> {
    return this.#call(call, work, null).outcome
  }

  /** Runs a call whose text comes in pieces; `onText` gets them, one for each `readOn`. */
  stream(call: DatabaseCall, work: CallWork, onText: CursorListener): RunningCursor {
    return this.#call(call, work, onText)
  }

  /** Has committed changes reported, or no longer. */
  watch(isWatched: boolean): void {
    this.#send({ type: 'watch', isWatched })
  }

  closeStream(stream: number): void {
    this.#send({ type: 'close-stream', stream })
  }

  /**
   * Closes the database, so that the worker can be given another one; what is under way ends with the worker. With
   * `keep: false` the files are about to be removed. Calls that come meanwhile are refused with a `NotBegunError`.
   */
  async release({ keep }: { readonly keep: boolean }): Promise<void> {
    if (this.#isDead) return
    if (this.#release === null) {
      if (this.isBusy) return await this.end()
      this.#release = Promise.withResolvers()
      this.#worker.ref()
      this.#send({ type: 'release', keep })
    }
    await this.#release.promise
  }

  /**
   * Ends the worker once its connections are closed; what it works on is interrupted. What was acknowledged is kept,
   * open transactions are rolled back.
   */
  async end(): Promise<void> {
    if (this.#isDead) return
    const gone = once(this.#worker, 'exit')
    this.#isEnding = true
    this.#worker.ref()
    this.#state.end()
    this.#send({ type: 'end' })
    const timer = setTimeout(() => this.#terminate(), CLOSE_GRACE_MS)
    await gone
    clearTimeout(timer)
  }

  #terminate(): void {
    this.#isEnding = true
    void this.#worker.terminate()
  }

  #call(call: DatabaseCall, work: CallWork, onText: CursorListener | null): RunningCursor {
    this.#lastCall = (this.#lastCall % LAST_CALL) + 1
    const number = this.#lastCall
    const { id, stream, permissions, signal } = call
    const abandon = (): void => this.#abandon(number)
    const { promise, resolve, reject } = Promise.withResolvers<CallOutcome>()
    const outcome = promise.finally(() => signal.removeEventListener('abort', abandon))
    const readOn = (): void => this.#send({ type: 'cursor-read', call: number })
    // one that was released may have another database by now
    if (this.#isDead || this.#database !== id) reject(new NotBegunError('the database was closed'))
    else {
      this.#calls.set(number, { onText, resolve, reject })
      // one that is being released fails the call when it is done
      if (this.#release === null) {
        this.#send({ ...work, call: number, stream, permissions })
        this.#watch ??= setInterval(() => this.#look(), WATCH_INTERVAL_MS).unref()
        if (signal.aborted) abandon()
        else signal.addEventListener('abort', abandon)
      }
    }
    return { outcome, abandon, readOn }
  }

  /** The client of a call has left: its statement is interrupted, and what has not begun will not begin. */
  #abandon(number: number): void {
    if (!this.#calls.has(number)) return // it has been answered
    this.#state.abandon(number)
    this.#send({ type: 'abandon', call: number })
  }

  #receive(message: Exclude<FromWorker, { readonly type: 'ready' }>): void {
    if (message.type === 'released') return this.#wasReleased()
    const id = this.#database
    if (id === null) return
    if (message.type === 'request') return void this.#reply(id, message.number, message.request)
    if (message.type === 'changes') return this.#listener.onChanges(id, message.changes)
    if (message.type === 'answer' && message.usage.length > 0) this.#listener.onUsage(id, message.usage)
    const pending = this.#calls.get(message.call)
    if (pending === undefined) return
    if (message.type === 'cursor-begin') pending.onText?.begin()
    else if (message.type === 'cursor-lines') pending.onText?.lines(message.text)
    else {
      this.#calls.delete(message.call)
      this.#detach()
      pending.resolve(message.outcome)
    }
  }

  async #reply(id: DatabaseId, number: number, request: WorkerRequest): Promise<void> {
    this.#send({ type: 'reply', number, reply: await this.#listener.onRequest(id, request) })
  }

  /** Ends a statement that keeps others waiting for too long, and the worker when that does not help. */
  #look(): void {
    const call = this.#state.current
    const now = Date.now()
    if (call === 0) this.#busy = null
    else if (this.#busy?.call !== call) this.#busy = { call, since: now, interruptedAt: null }
    if (this.#busy === null) return
    if (this.#calls.size > 1 && now - this.#busy.since > MAX_BLOCKING_MS) this.#state.interrupt(call)
    if (!this.#state.isInterrupted) return
    this.#busy.interruptedAt ??= now
    if (now - this.#busy.interruptedAt > INTERRUPT_GRACE_MS) this.#terminate()
  }

  #wasReleased(): void {
    if (this.#isEnding) return // it is gone soon
    const release = this.#release
    this.#release = null
    for (const number of this.#calls.keys()) this.#fail(number, 'it has been given up')
    this.#detach()
    this.#close()
    release?.resolve()
  }

  #exited(reason: string): void {
    if (this.#isDead) return
    this.#isDead = true
    this.#detach()
    for (const number of this.#calls.keys()) this.#fail(number, `it ended with ${reason}${this.#lastWords()}`)
    this.#close()
    this.#release?.resolve()
  }

  #close(): void {
    const id = this.#database
    this.#database = null
    this.#listener.onClosed(this, id)
  }

  /** The error the worker has printed, if any. */
  #lastWords(): string {
    const error = /^\w*Error: .*$/m.exec(this.#log)?.[0]
    return error === undefined ? '' : ` (${error})`
  }

  #fail(number: number, reason: string): void {
    const pending = this.#calls.get(number)
    this.#calls.delete(number)
    if (pending === undefined) return
    if (!this.#state.hasBegun(number)) return pending.reject(new NotBegunError(reason))
    pending.reject(
      PipelineFailure.service(500, `Internal Error: \`the engine of this database failed: ${reason}\``),
    )
  }

  #send(message: ToWorker): void {
    if (this.#isDead) return
    // a worker with calls to answer keeps the process alive, an idle one does not
    if (this.#calls.size > 0) this.#worker.ref()
    this.#worker.postMessage(message)
  }

  #detach(): void {
    if (this.#calls.size > 0) return
    if (this.#watch !== null) clearInterval(this.#watch)
    this.#watch = null
    this.#busy = null
    if (!this.#isEnding) this.#worker.unref()
  }
}
