import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { DatabaseSettings } from '../backend.ts'
import { CallBoard } from './protocol/call-board.ts'
import type {
  Answer,
  CallOutcome,
  FromHost,
  OpenedDatabase,
  Question,
  StatementUsage,
  TableChanges,
  ToHost,
  WorkerStart,
} from './protocol/host-messages.ts'
import { PipelineFailure } from './protocol/pipeline-failure.ts'
import type { BatchStep, Permissions, PipelineRequest } from './protocol/pipeline-types.ts'

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
/** Numbers of calls fit the board's cells. */
const LAST_CALL = 0x7fffffff

/** A call on its way through a host. */
interface PendingCall {
  readonly resolve: (outcome: CallOutcome) => void
  readonly reject: (error: Error) => void
  readonly onCursor: CursorListener | null
}

/** The worker has ended before it began with a call: nothing has happened, the call can be made again. */
export class NotBegunError extends Error {}

/** Receives a cursor's text while it runs. */
export interface CursorListener {
  begin(): void
  lines(text: string): void
}

/** What every call says. */
export interface HostCall {
  readonly stream: number
  readonly permissions: Permissions
  /** Aborts when the client has left. */
  readonly signal: AbortSignal
}

/** What becomes of a host without a call that asks for it. */
export interface HostListener {
  /** The worker is gone, for whatever reason; called once. */
  onExit(): void
  /** The worker has let go of its database. */
  onReleased(): void
  /** A transaction has been committed, of a database that is watched. */
  onChanges(changes: readonly TableChanges[]): void
  /** The worker needs something of other databases. Never rejects. */
  onAsk(question: Question): Promise<Answer>
  /** What the worker's database was used for. */
  onUsage(usage: readonly StatementUsage[]): void
}

/** A call on its way. */
export interface HostAnswer {
  readonly outcome: Promise<CallOutcome>
  /** Nobody waits for it any more: what runs is interrupted, what has not begun will not begin. */
  readonly abandon: () => void
}

/** A worker thread that runs the engine for one database at a time. */
export class EngineHost {
  readonly #worker: Worker
  readonly #board = new CallBoard()
  readonly #ready: Promise<string>
  readonly #calls = new Map<number, PendingCall>()
  readonly #listener: HostListener
  #lastCall = 0
  #watch: NodeJS.Timeout | null = null
  #busy: { call: number; since: number; interruptedAt: number | null } | null = null
  #log = ''
  #isDead = false
  #isEnding = false
  /** While the worker lets go of its database. */
  #release: { readonly done: Promise<void>; readonly resolve: () => void } | null = null

  constructor(module: WebAssembly.Module, listener: HostListener) {
    this.#listener = listener
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const workerData: WorkerStart = { module, board: this.#board.memory }
    this.#worker = new Worker(new URL(`./engine/engine-worker.${extension}`, import.meta.url), {
      workerData,
      // flags of ours, such as an inspector's port or a test runner's loader, are not for it; Deno knows none
      execArgv: extension === 'ts' ? ['--disable-warning=ExperimentalWarning'] : [],
      env: {},
      resourceLimits: { stackSizeMb: STACK_MB },
      stdout: true,
      stderr: true,
    })
    this.#worker.on('message', (message: FromHost) => this.#receive(message))
    this.#worker.once('exit', (code) => this.#exited(`code ${code}`))
    this.#worker.once('error', (error) => {
      this.#log += `${error.name}: ${error.message}\n`
    })
    this.#worker.stderr.on('data', (chunk: Buffer) => {
      this.#log = (this.#log + chunk.toString('utf8')).slice(-LOG_TAIL_CHARACTERS)
    })
    this.#ready = this.#awaitReady()
    this.#ready.then(
      () => this.#detach(),
      () => {}, // reported to whoever waits for it
    )
  }

  /** Resolves with the engine's version once the worker can work. */
  get ready(): Promise<string> {
    return this.#ready
  }

  get isDead(): boolean {
    return this.#isDead
  }

  get isBusy(): boolean {
    return this.#calls.size > 0
  }

  /** Calls that have not been answered. */
  get pendingCalls(): number {
    return this.#calls.size
  }

  /** The call the engine works on; 0 for none. */
  get currentCall(): number {
    return this.#board.current
  }

  open(database: OpenedDatabase): void {
    this.#send({ type: 'open', ...database })
  }

  applySettings(settings: DatabaseSettings): void {
    this.#send({ type: 'settings', settings })
  }

  /** Runs a pipeline. Its outcome rejects with a `PipelineFailure` when the worker ends meanwhile. */
  pipeline(call: HostCall, requests: readonly PipelineRequest[], version: 2 | 3): HostAnswer {
    const { stream, permissions } = call
    return this.#call(call, null, (number) => {
      this.#send({ type: 'pipeline', call: number, stream, permissions, requests, version })
    })
  }

  /** Runs a cursor; `onCursor` gets its text, a piece for each `readOn`. */
  cursor(call: HostCall, steps: readonly BatchStep[], onCursor: CursorListener): HostCursor {
    const { stream, permissions } = call
    return this.#streamed(call, onCursor, (number) => {
      this.#send({ type: 'cursor', call: number, stream, permissions, steps })
    })
  }

  /** Writes the database as statements; `onText` gets them as a cursor's text. */
  dump(call: HostCall, preserveRowIds: boolean, onText: CursorListener): HostCursor {
    const { stream, permissions } = call
    return this.#streamed(call, onText, (number) => {
      this.#send({ type: 'dump', call: number, stream, permissions, preserveRowIds })
    })
  }

  /** Runs a migration, or tries it out; the text of its outcome is what went wrong. */
  migration(call: HostCall, migration: { job: number; program: string; isDryRun: boolean }): HostAnswer {
    const { stream, permissions } = call
    return this.#call(call, null, (number) => {
      this.#send({ type: 'migration', call: number, stream, permissions, ...migration })
    })
  }

  /** Copies the database to a file and its log. */
  snapshot(call: HostCall, path: string): HostAnswer {
    const { stream, permissions } = call
    return this.#call(call, null, (number) => {
      this.#send({ type: 'snapshot', call: number, stream, permissions, path })
    })
  }

  /** Has committed changes reported, or no longer. */
  watch(isWatched: boolean): void {
    this.#send({ type: 'watch', isWatched })
  }

  closeStream(stream: number): void {
    this.#send({ type: 'close-stream', stream })
  }

  /**
   * Takes the worker's database away, so that it can be given another one. With `keep: false` the files are about to
   * be removed. Calls that come meanwhile are refused with a `NotBegunError`. Not while a call is running.
   */
  async release({ keep }: { readonly keep: boolean }): Promise<void> {
    if (this.#isDead) return
    if (this.#release === null) {
      let resolve = (): void => {}
      const done = new Promise<void>((settle) => {
        resolve = settle
      })
      this.#release = { done, resolve }
      this.#worker.ref()
      this.#send({ type: 'release', keep })
    }
    await this.#release.done
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
    this.#board.end()
    this.#send({ type: 'end' })
    const timer = setTimeout(() => this.#terminate(), CLOSE_GRACE_MS)
    await gone
    clearTimeout(timer)
  }

  #terminate(): void {
    this.#isEnding = true
    void this.#worker.terminate()
  }

  async #awaitReady(): Promise<string> {
    return await new Promise((resolve, reject) => {
      this.#worker.on('message', (message: FromHost) => {
        if (message.type === 'ready') resolve(message.sqliteVersion)
      })
      this.#worker.once('exit', () => reject(new Error(`the engine could not be started: ${this.#log}`)))
    })
  }

  #streamed(call: HostCall, onText: CursorListener, begin: (call: number) => void): HostCursor {
    let number = 0
    const answer = this.#call(call, onText, (given) => {
      number = given
      begin(number)
    })
    return { ...answer, readOn: () => this.#send({ type: 'cursor-read', call: number }) }
  }

  #call(call: HostCall, onCursor: CursorListener | null, begin: (call: number) => void): HostAnswer {
    this.#lastCall = (this.#lastCall % LAST_CALL) + 1
    const number = this.#lastCall
    const abandon = (): void => this.#abandon(number)
    const outcome = new Promise<CallOutcome>((resolve, reject) => {
      const settled = (): void => call.signal.removeEventListener('abort', abandon)
      this.#calls.set(number, {
        onCursor,
        resolve: (outcome) => {
          settled()
          resolve(outcome)
        },
        reject: (error) => {
          settled()
          reject(error)
        },
      })
      if (this.#isDead) return this.#fail(number, 'it has ended')
      if (this.#release !== null) return // it fails with the release
      begin(number)
      this.#watch ??= setInterval(() => this.#look(), WATCH_INTERVAL_MS).unref()
      if (call.signal.aborted) abandon()
      else call.signal.addEventListener('abort', abandon)
    })
    return { outcome, abandon }
  }

  /** The client of a call has left: its statement is interrupted, and what has not begun will not begin. */
  #abandon(number: number): void {
    if (!this.#calls.has(number)) return // it has been answered
    this.#board.abandon(number)
    this.#send({ type: 'abandon', call: number })
  }

  #receive(message: FromHost): void {
    if (message.type === 'ready') return
    if (message.type === 'released') return this.#wasReleased()
    if (message.type === 'ask') return void this.#answer(message.number, message.question)
    if (message.type === 'changes') return this.#listener.onChanges(message.changes)
    if (message.type === 'answer' && message.usage.length > 0) this.#listener.onUsage(message.usage)
    const pending = this.#calls.get(message.call)
    if (pending === undefined) return
    if (message.type === 'cursor-begin') pending.onCursor?.begin()
    else if (message.type === 'cursor-lines') pending.onCursor?.lines(message.text)
    else {
      this.#calls.delete(message.call)
      this.#detach()
      pending.resolve(message.outcome)
    }
  }

  async #answer(number: number, question: Question): Promise<void> {
    const answer = await this.#listener.onAsk(question)
    this.#send({ type: 'told', number, answer })
  }

  /** Ends a statement that keeps others waiting for too long, and the worker when that does not help. */
  #look(): void {
    const call = this.#board.current
    const now = Date.now()
    if (call === 0) this.#busy = null
    else if (this.#busy?.call !== call) this.#busy = { call, since: now, interruptedAt: null }
    if (this.#busy === null) return
    if (this.#calls.size > 1 && now - this.#busy.since > MAX_BLOCKING_MS) this.#board.interrupt(call)
    if (!this.#board.isInterrupted) return
    this.#busy.interruptedAt ??= now
    if (now - this.#busy.interruptedAt > INTERRUPT_GRACE_MS) this.#terminate()
  }

  #wasReleased(): void {
    if (this.#isEnding) return // it is gone soon
    const release = this.#release
    this.#release = null
    for (const number of this.#calls.keys()) this.#fail(number, 'it has been given up')
    this.#detach()
    this.#listener.onReleased()
    release?.resolve()
  }

  #exited(reason: string): void {
    if (this.#isDead) return
    this.#isDead = true
    this.#detach()
    for (const number of this.#calls.keys()) this.#fail(number, `it ended with ${reason}${this.#lastWords()}`)
    this.#listener.onExit()
    this.#release?.resolve()
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
    if (!this.#board.hasBegun(number)) return pending.reject(new NotBegunError(reason))
    pending.reject(
      PipelineFailure.service(500, `Internal Error: \`the engine of this database failed: ${reason}\``),
    )
  }

  #send(message: ToHost): void {
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

/** A cursor on its way. */
export interface HostCursor extends HostAnswer {
  /** Asks for the next piece. */
  readonly readOn: () => void
}
