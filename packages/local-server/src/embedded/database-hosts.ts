import type { DatabaseId, DatabaseSettings, SchemaRole } from '../backend.ts'
import type { Dialect } from '../dialect.ts'
import {
  type CursorListener,
  type EngineHost,
  type HostAnswer,
  type HostCall,
  type HostCursor,
  NotBegunError,
} from './engine-host.ts'
import { onlyReads } from './only-reads.ts'
import { DatabaseBoard, MAX_READERS } from './protocol/database-board.ts'
import type { CallOutcome } from './protocol/host-messages.ts'
import type { BatchStep, PipelineRequest } from './protocol/pipeline-types.ts'

/** A statement that runs this long while others wait is in their way. */
const TICK_MS = 20
/** What a reader can meet where the writer would not. */
const UNFIT = /"code":"SQLITE_(?:BUSY|PROTOCOL|READONLY|CANTOPEN|IOERR|CORRUPT|NOTADB)/

/** A database and where its workers come from. */
export interface DatabaseHostsOptions {
  readonly id: DatabaseId
  readonly path: string
  readonly settings: DatabaseSettings
  readonly role: SchemaRole
  readonly dialect: Dialect | null
  readonly isKept: boolean
  /** A worker without a database, for these hosts. */
  take(): EngineHost
}

/** A pipeline that is all there is of its stream, on its way in the writer's worker. */
interface WholePipeline {
  readonly call: HostCall
  readonly requests: readonly PipelineRequest[]
  readonly version: 2 | 3
  readonly answer: HostAnswer
  readonly resolve: (outcome: CallOutcome | Promise<CallOutcome>) => void
  isMoved: boolean
}

/**
 * The workers of a database: one that does everything, and some that take over pipelines that only read when a
 * statement keeps it busy. A transaction stays where it is.
 */
export class DatabaseHosts {
  readonly #options: DatabaseHostsOptions
  readonly #board = new DatabaseBoard()
  readonly #writer: EngineHost
  readonly #readers: (EngineHost | undefined)[] = Array.from({ length: MAX_READERS })
  /** What could be moved to a reader. */
  readonly #whole = new Set<WholePipeline>()
  #ticker: NodeJS.Timeout | null = null
  /** What the writer worked on at the last tick. */
  #lastCall = 0
  #settings: DatabaseSettings
  #isEnding = false
  /** Whether the writer is gone, or may work for another database by now. */
  #isLost = false

  constructor(options: DatabaseHostsOptions) {
    this.#options = options
    this.#settings = options.settings
    this.#writer = options.take()
    this.#open(this.#writer, null)
  }

  get ready(): Promise<unknown> {
    return this.#writer.ready
  }

  get isBusy(): boolean {
    return this.#hosts().some((host) => host.isBusy)
  }

  applySettings(settings: DatabaseSettings): void {
    this.#settings = settings
    for (const host of this.#hosts()) host.applySettings(settings)
  }

  /** Runs a pipeline; `isWhole` says that its stream begins and ends with it. */
  pipeline(
    call: HostCall,
    requests: readonly PipelineRequest[],
    { version, isWhole }: { readonly version: 2 | 3; readonly isWhole: boolean },
  ): Promise<CallOutcome> {
    const answer = this.#openWriter().pipeline(call, requests, version)
    // what changes a schema database waits for others
    if (!isWhole || this.#options.role === 'schema') return answer.outcome
    return new Promise((resolve, reject) => {
      const pipeline: WholePipeline = { call, requests, version, answer, resolve, isMoved: false }
      this.#whole.add(pipeline)
      this.#ticker ??= setInterval(() => this.#tick(), TICK_MS).unref()
      answer.outcome.then(
        (outcome) => {
          this.#whole.delete(pipeline)
          // of one that was moved the writer says only that it was taken away
          if (!pipeline.isMoved || outcome.type === 'results') resolve(outcome)
        },
        (error: unknown) => {
          this.#whole.delete(pipeline)
          reject(error)
        },
      )
    })
  }

  cursor(call: HostCall, steps: readonly BatchStep[], onCursor: CursorListener): HostCursor {
    return this.#openWriter().cursor(call, steps, onCursor)
  }

  dump(call: HostCall, preserveRowIds: boolean, onText: CursorListener): HostCursor {
    return this.#openWriter().dump(call, preserveRowIds, onText)
  }

  /** Runs a migration, or tries it out; the text of its outcome is what went wrong. */
  migration(
    call: HostCall,
    migration: { job: number; program: string; isDryRun: boolean },
  ): Promise<CallOutcome> {
    return this.#openWriter().migration(call, migration).outcome
  }

  /** Copies the database to a file and its log. */
  snapshot(call: HostCall, path: string): Promise<CallOutcome> {
    return this.#openWriter().snapshot(call, path).outcome
  }

  /** Has committed changes reported, or no longer. */
  watch(isWatched: boolean): void {
    if (!this.#isLost) this.#writer.watch(isWatched)
  }

  closeStream(stream: number): void {
    if (!this.#isLost) this.#writer.closeStream(stream)
  }

  /** Closes the database; with `keep: false` its files are about to be removed. What runs is interrupted. */
  async release({ keep }: { readonly keep: boolean }): Promise<void> {
    await this.#releaseReaders()
    await retire(this.#writer, keep)
  }

  /** Closes the database unless it is in use. */
  async releaseUnless(isInUse: () => boolean): Promise<void> {
    await this.#releaseReaders()
    if (isInUse()) this.#isEnding = false
    else await retire(this.#writer, true)
  }

  /** Ends all workers. */
  async end(): Promise<void> {
    this.#isEnding = true
    await Promise.all(this.#presentReaders().map((reader) => reader.end()))
    await this.#writer.end()
  }

  /** @throws NotBegunError when the database is closed: who asks finds its next workers */
  #openWriter(): EngineHost {
    if (this.#isLost) throw new NotBegunError('the database has been closed')
    return this.#writer
  }

  isWriter(host: EngineHost): boolean {
    return host === this.#writer
  }

  /** To be called when a worker has let go of the database, or is gone. Whether the database is closed with it. */
  lost(host: EngineHost): boolean {
    if (this.isWriter(host)) {
      this.#isEnding = true
      this.#isLost = true
      if (this.#ticker !== null) clearInterval(this.#ticker)
      // whatever they still read is not used: the next writer does not know of them
      for (const reader of this.#presentReaders()) void reader.end()
      return true
    }
    const reader = this.#readers.indexOf(host)
    if (reader < 0) return false // one of hosts that the database had before
    this.#board.forgetReader(reader)
    this.#readers[reader] = undefined
    return false
  }

  /** To be called before the writer closes: at its end it removes the log. */
  async #releaseReaders(): Promise<void> {
    this.#isEnding = true
    await Promise.all(this.#presentReaders().map((reader) => retire(reader, true)))
  }

  /** When one statement has kept the writer busy since the last tick, takes everything away that can be elsewhere. */
  #tick(): void {
    const call = this.#writer.currentCall
    const isStuck = call !== 0 && call === this.#lastCall
    this.#lastCall = call
    if (this.#whole.size === 0) {
      if (this.#ticker !== null) clearInterval(this.#ticker)
      this.#ticker = null
    } else if (isStuck && this.#writer.pendingCalls > 1) {
      for (const pipeline of this.#whole) this.#move(pipeline)
    }
  }

  #move(pipeline: WholePipeline): void {
    const { call, requests, version, answer, resolve } = pipeline
    this.#whole.delete(pipeline)
    if (this.#isEnding || call.signal.aborted || !onlyReads(requests)) return
    pipeline.isMoved = true
    answer.abandon()
    const again = (): Promise<CallOutcome> => this.#openWriter().pipeline(call, requests, version).outcome
    const moved = this.#reader().pipeline(call, requests, version).outcome
    resolve(moved.then((outcome) => (this.#isEnding || !isFit(outcome) ? again() : outcome), again))
  }

  /** The reader with the least to do, a new one if all are busy. */
  #reader(): EngineHost {
    const [least] = this.#presentReaders().sort((a, b) => a.pendingCalls - b.pendingCalls)
    const free = this.#readers.indexOf(undefined)
    if (least !== undefined && (free < 0 || !least.isBusy)) return least
    const reader = this.#options.take()
    this.#readers[free] = reader
    this.#open(reader, free)
    return reader
  }

  #open(host: EngineHost, reader: number | null): void {
    const { id, path, role, dialect, isKept } = this.#options
    const board = this.#board.memory
    host.open({ id, path, role, dialect, isKept, settings: this.#settings, board, reader })
  }

  #hosts(): readonly EngineHost[] {
    return [this.#writer, ...this.#presentReaders()]
  }

  #presentReaders(): EngineHost[] {
    return this.#readers.filter((reader) => reader !== undefined)
  }
}

function isFit(outcome: CallOutcome): boolean {
  return outcome.type === 'results' && !UNFIT.test(outcome.text)
}

/** Takes a worker's database away. What a worker with calls works on has to be interrupted. */
async function retire(host: EngineHost, keep: boolean): Promise<void> {
  if (host.isBusy) await host.end()
  else await host.release({ keep })
}
