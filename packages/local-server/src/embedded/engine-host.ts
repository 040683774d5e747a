import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseId, DatabaseSettings } from '../backend.ts'
import type { CallOutcome, FromHost, ToHost } from './host-messages.ts'
import { PipelineFailure } from './pipeline-failure.ts'
import type { BatchStep, PipelineRequest, Rights } from './pipeline-types.ts'

/** How long a statement may keep others of its database waiting before its host is ended. */
const MAX_BLOCKING_MS = 60_000
/** How long the statement of a client that has left may go on for the sake of others with an open stream. */
const PATIENCE_MS = 5_000
const LOG_TAIL_CHARACTERS = 2_000

/** A call on its way through a host. */
interface PendingCall {
  readonly stream: number
  readonly isNewStream: boolean
  resolve(outcome: CallOutcome): void
  reject(error: Error): void
  readonly onCursor: CursorListener | null
  /** Whether the host says when it begins; it does so only where a call may have to wait. */
  readonly isAnnounced: boolean
  hasBegun: boolean
  isAbandoned: boolean
}

/** The host has ended before it began with a call: nothing has happened, the call can be made again. */
export class NotBegunError extends Error {}

/** Told of a cursor while it runs. */
export interface CursorListener {
  begin(): void
  lines(text: string): void
}

/** What every call says. */
export interface HostCall {
  readonly stream: number
  readonly rights: Rights
  /** Aborts when the client has left. */
  readonly signal: AbortSignal
}

/** A process that runs the engine for one database. Made ahead of need, it is given its database later. */
export class EngineHost {
  readonly #child: ChildProcess
  readonly #ready: Promise<string>
  readonly #calls = new Map<number, PendingCall>()
  readonly #streams = new Set<number>()
  readonly #onExit: () => void
  #lastCall = 0
  #stuck: { call: number; since: number } | null = null
  #log = ''
  #report = ''
  #isDead = false
  #isEnding = false

  /** `onExit` is called once when the process is gone, for whatever reason. */
  constructor(onExit: () => void) {
    this.#onExit = onExit
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    const { NODE_OPTIONS: _, ...env } = process.env
    this.#child = fork(new URL(`./host-process.${extension}`, import.meta.url), {
      // flags of ours, such as an inspector's port or a test runner's loader, are not for it
      execArgv: ['--disable-warning=ExperimentalWarning'],
      // from its TypeScript sources a host starts in a third of the time when Node remembers what it made of them
      env: extension === 'ts' ? { NODE_COMPILE_CACHE: join(tmpdir(), 'node-compile-cache'), ...env } : env,
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc', 'pipe'],
    })
    this.#child.on('message', (message) => this.#receive(message as FromHost))
    // not `exit`: the reports it left in the pipe are read first
    this.#child.once('close', (code, signal) => this.#exited(signal ?? `code ${code}`))
    this.#child.once('error', (error) => this.#exited(error.message))
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#log = (this.#log + chunk.toString('utf8')).slice(-LOG_TAIL_CHARACTERS)
    })
    this.#child.stdio[4]?.on('data', (chunk: Buffer) => this.#reported(chunk.toString('latin1')))
    this.#ready = this.#awaitReady()
    this.#ready.then(
      () => this.#detach(),
      () => {}, // told again to whoever waits for it
    )
  }

  /** Resolves with the engine's version once the process can work. */
  get ready(): Promise<string> {
    return this.#ready
  }

  get isDead(): boolean {
    return this.#isDead
  }

  get isBusy(): boolean {
    return this.#calls.size > 0
  }

  open(id: DatabaseId, path: string, settings: DatabaseSettings): void {
    this.#send({ type: 'open', id, path, settings })
  }

  applySettings(settings: DatabaseSettings): void {
    this.#send({ type: 'settings', settings })
  }

  /** Runs a pipeline. Rejects with a `PipelineFailure` when the process dies meanwhile. */
  pipeline(call: HostCall, requests: readonly PipelineRequest[], version: 2 | 3): Promise<CallOutcome> {
    const { stream, rights } = call
    return this.#call(call, null, (number, announce) => {
      this.#send({ type: 'pipeline', call: number, stream, rights, announce, requests, version })
    })
  }

  /** Runs a cursor; `onCursor` gets its text, a piece for each `readOn`. */
  cursor(call: HostCall, steps: readonly BatchStep[], onCursor: CursorListener): HostCursor {
    const { stream, rights } = call
    let number = 0
    const outcome = this.#call(call, onCursor, (given, announce) => {
      number = given
      this.#send({ type: 'cursor', call: number, stream, rights, announce, steps })
    })
    return { outcome, readOn: () => this.#send({ type: 'cursor-read', call: number }) }
  }

  closeStream(stream: number): void {
    this.#streams.delete(stream)
    this.#send({ type: 'close-stream', stream })
  }

  /** Ends the process at once. What was acknowledged is in the file. */
  async kill(): Promise<void> {
    if (this.#isDead) return
    // its pipes, too: `close` comes after theirs, and nothing else may be left to keep this process waiting for it
    this.#hold(true)
    const gone = once(this.#child, 'close')
    this.#end()
    await gone
  }

  #end(): void {
    this.#isEnding = true
    this.#child.kill('SIGKILL')
  }

  async #awaitReady(): Promise<string> {
    return await new Promise((resolve, reject) => {
      this.#child.on('message', (message: FromHost) => {
        if (message.type === 'ready') resolve(message.sqliteVersion)
      })
      this.#child.once('exit', () => reject(new Error(`the engine could not be started: ${this.#log}`)))
      this.#child.once('error', reject)
    })
  }

  #call(
    call: HostCall,
    onCursor: CursorListener | null,
    begin: (call: number, announce: boolean) => void,
  ): Promise<CallOutcome> {
    this.#lastCall = (this.#lastCall % 0x7fffffff) + 1
    const number = this.#lastCall
    return new Promise((resolve, reject) => {
      const isAnnounced = this.#calls.size > 0 || this.#isEnding || !this.#child.connected
      const pending: PendingCall = {
        stream: call.stream,
        isNewStream: !this.#streams.has(call.stream),
        resolve,
        reject,
        onCursor,
        isAnnounced,
        hasBegun: false,
        isAbandoned: false,
      }
      const abandon = (): void => this.#abandon(number, pending)
      const settled = (): void => call.signal.removeEventListener('abort', abandon)
      pending.resolve = (outcome) => {
        settled()
        if (outcome.type === 'failure' || outcome.isClosed) this.#streams.delete(call.stream)
        resolve(outcome)
      }
      pending.reject = (error) => {
        settled()
        reject(error)
      }
      this.#calls.set(number, pending)
      this.#streams.add(call.stream)
      if (this.#isDead) return this.#fail(number, 'it has ended')
      begin(number, isAnnounced)
      if (call.signal.aborted) abandon()
      else call.signal.addEventListener('abort', abandon)
    })
  }

  #abandon(number: number, pending: PendingCall): void {
    pending.isAbandoned = true
    this.#send({ type: 'abandon', call: number })
    if (this.#stuck?.call === number) this.#busyFor(number)
  }

  #receive(message: FromHost): void {
    if (message.type === 'ready') return
    this.#stuck = null
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

  #reported(text: string): void {
    this.#report += text
    const lines = this.#report.split('\n')
    this.#report = lines.pop() ?? ''
    for (const line of lines) {
      const [word, number] = line.split(' ')
      const pending = this.#calls.get(Number(number))
      if (word === 'busy') this.#busyFor(Number(number))
      else if (pending !== undefined) pending.hasBegun = true
    }
  }

  /** The watchdog in the process says which call its engine has been working on for a while. */
  #busyFor(call: number): void {
    if (this.#stuck?.call !== call) this.#stuck = { call, since: Date.now() }
    const busyMs = Date.now() - this.#stuck.since
    const blocksOthers = this.#calls.size > 1 && busyMs > MAX_BLOCKING_MS
    const isUnwanted = this.#calls.get(call)?.isAbandoned === true
    // a statement cannot be interrupted, only its process ended, and everybody's transaction with it
    if (blocksOthers || (isUnwanted && (!this.#hurtsOthers(call) || busyMs > PATIENCE_MS))) this.#end()
  }

  /** Whether the end of the process would take a stream with it that is not this call's own. */
  #hurtsOthers(call: number): boolean {
    const spared = new Set<number>()
    for (const [number, { stream, isNewStream, isAnnounced, hasBegun }] of this.#calls) {
      if (number === call || (isNewStream && isAnnounced && !hasBegun)) spared.add(stream)
    }
    return [...this.#streams].some((stream) => !spared.has(stream))
  }

  #exited(reason: string): void {
    if (this.#isDead) return
    this.#isDead = true
    for (const number of this.#calls.keys()) this.#fail(number, `it ended with ${reason}${this.#lastWords()}`)
    this.#onExit()
  }

  /** The error the process has printed, if any. */
  #lastWords(): string {
    const error = /^(?:\w*Error: .*|called `Result::unwrap.*)$/m.exec(this.#log)?.[0]
    return error === undefined ? '' : ` (${error})`
  }

  #fail(number: number, reason: string): void {
    const pending = this.#calls.get(number)
    this.#calls.delete(number)
    if (pending === undefined) return
    if (pending.isAnnounced && !pending.hasBegun) return pending.reject(new NotBegunError(reason))
    pending.reject(
      PipelineFailure.service(500, `Internal Error: \`the engine of this database failed: ${reason}\``),
    )
  }

  #send(message: ToHost): void {
    if (this.#isDead || !this.#child.connected) return
    // a process with calls to answer keeps this one alive, an idle one does not
    if (this.#calls.size > 0) this.#hold(true)
    this.#child.send(message, () => {})
  }

  #detach(): void {
    if (this.#calls.size === 0 && !this.#isEnding) this.#hold(false)
  }

  /** Whether this process goes on for the sake of the host. */
  #hold(isHeld: boolean): void {
    const pipes = [this.#child.stderr, this.#child.stdio[4]] as (
      | { ref?(): void; unref?(): void }
      | null
      | undefined
    )[]
    for (const handle of [this.#child, this.#child.channel, ...pipes]) {
      if (isHeld) handle?.ref?.()
      else handle?.unref?.()
    }
  }
}

/** A cursor on its way. */
export interface HostCursor {
  readonly outcome: Promise<CallOutcome>
  /** Asks for the next piece. */
  readonly readOn: () => void
}
