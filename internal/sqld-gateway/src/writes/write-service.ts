import { stat } from 'node:fs/promises'
import type { DatabaseId } from '@batonsql/server-common/backend'
import { discard } from '../process/exchange.ts'
import type { InternalRequests } from '../process/internal-requests.ts'
import type { Upstream } from '../process/upstream.ts'
import type { WriteEffect } from '../request/write-effect.ts'
import { isWriteLockFree } from './is-write-lock-free.ts'
import { STALL_TIMES, type Stall, StallDetector, type StallTimes } from './stall-detector.ts'
import type { StreamWrites, WriteRequest } from './stream-writes.ts'
import { WalCheckpointer } from './wal-checkpointer.ts'
import { WriteGate } from './write-gate.ts'

export interface WriteServiceOptions {
  /** Returns the file of a database; null for a remote server, which manages its WALs itself and is never restarted. */
  readonly getFile: ((id: DatabaseId) => string) | null
  /** See {@link WriteService.beforeWrite}. */
  readonly beforeWrite: (id: DatabaseId) => Promise<void>
  readonly onNotice: (id: DatabaseId, text: string) => void
  readonly stallTimes: StallTimes | undefined
}

/** How long the server may take to respond to a health check. */
const RESPONSE_TIMEOUT_MS = 3_000
const PROBE_WRITE_LOCK = 'BEGIN IMMEDIATE; ROLLBACK'
const DEFECT_PAGE = 'docs/self-hosting.md'

interface Database {
  readonly gate: WriteGate
  /** Null for a remote server. */
  readonly checkpointer: WalCheckpointer | null
}

/**
 * Sends the writes of one server through gates, keeps the WALs of its databases small, and restarts the server when it no
 * longer responds to writes.
 */
export class WriteService {
  readonly #databases = new Map<DatabaseId, Database>()
  readonly #upstream: Upstream
  readonly #internal: InternalRequests
  readonly #options: WriteServiceOptions
  readonly #times: StallTimes
  readonly #detector: StallDetector
  readonly #reportedStalls = new Set<DatabaseId>()

  constructor(upstream: Upstream, internal: InternalRequests, options: WriteServiceOptions) {
    this.#upstream = upstream
    this.#internal = internal
    this.#options = options
    this.#times = options.stallTimes ?? STALL_TIMES
    const { getFile } = options
    this.#detector = new StallDetector(
      {
        databases: () => this.#databases.keys(),
        stalledMs: (id) => this.#getStalledMs(id),
        probe: (id) => this.#probe(id),
        responds: () => upstream.responds(RESPONSE_TIMEOUT_MS),
        // on a remote server, another client's statement may hold the lock; it is never restarted
        isLockFree: async (id) => (getFile === null ? true : isWriteLockFree(getFile(id))),
        onStall: (id, stall) => this.#onStall(id, stall),
      },
      this.#times,
    )
  }

  /** Describes what is wrong with the server of a database; null if it is healthy. */
  async findHealthProblem(id: DatabaseId): Promise<string | null> {
    const stalledMs = this.#getStalledMs(id)
    const { getFile } = this.#options
    const isWriting = getFile !== null && isWriteLockFree(getFile(id)) === false
    if (stalledMs > this.#times.stallAfterMs && !isWriting)
      return `libsql-server has not responded to a write for ${formatSeconds(stalledMs)}`
    return (await this.#upstream.responds(RESPONSE_TIMEOUT_MS)) ? null : 'libsql-server does not respond'
  }

  /** Must be called before each write, including one through a replica. @throws MissingFileError */
  async beforeWrite(id: DatabaseId): Promise<void> {
    await this.#options.beforeWrite(id)
  }

  /** Waits until a request may be sent. Rejects if its client disconnects meanwhile. */
  async enter(
    id: DatabaseId,
    stream: StreamWrites,
    effect: WriteEffect,
    signal: AbortSignal,
  ): Promise<WriteRequest> {
    return await this.#getDatabase(id).gate.enter(stream, effect, signal)
  }

  /** Whether requests on other streams are writing, or waiting for the write lock. */
  isContended(id: DatabaseId, stream: StreamWrites): boolean {
    const writers = this.#databases.get(id)?.gate.writers ?? []
    return writers.some((writer) => writer !== stream && writer.isRunning)
  }

  /** Whether the server may still execute an abandoned request that changes data. */
  isAbandoned(id: DatabaseId): boolean {
    return this.#databases.get(id)?.gate.hasAbandoned === true
  }

  /** Called when streams of a database are closed. */
  forgetStreams(id: DatabaseId, streams: readonly StreamWrites[]): void {
    this.#databases.get(id)?.gate.forgetIdle(streams)
  }

  /** Called when the server has stopped, which has ended all streams. */
  forgetAllStreams(): void {
    for (const { gate } of this.#databases.values()) {
      gate.forgetIdle()
      gate.resetStall()
    }
    this.forgetAbandoned()
  }

  forgetAbandoned(): void {
    for (const { gate } of this.#databases.values()) gate.hasAbandoned = false
  }

  remove(id: DatabaseId): void {
    this.#databases.get(id)?.checkpointer?.close()
    this.#databases.delete(id)
  }

  close(): void {
    this.#detector.close()
    for (const id of this.#databases.keys()) this.remove(id)
  }

  #getStalledMs(id: DatabaseId): number {
    return this.#databases.get(id)?.gate.stalledMs ?? 0
  }

  #getDatabase(id: DatabaseId): Database {
    const existing = this.#databases.get(id)
    if (existing !== undefined) return existing
    const gate = new WriteGate(() => checkpointer?.onWrite())
    const file = this.#options.getFile?.(id)
    const wal = {
      bytes: async () => (await stat(`${file}-wal`).catch(() => null))?.size ?? 0,
      checkpoint: () => this.#upstream.withAdmin((admin) => admin.checkpoint(id)),
      onNotice: (text: string) => this.#options.onNotice(id, text),
    }
    const checkpointer = file === undefined ? null : new WalCheckpointer(gate, wal)
    const database = { gate, checkpointer }
    this.#databases.set(id, database)
    return database
  }

  async #probe(id: DatabaseId): Promise<void> {
    const response = await this.#internal.runScript(id, PROBE_WRITE_LOCK)
    discard(response)
    this.#databases.get(id)?.gate.resetStall()
    this.#reportedStalls.delete(id)
  }

  async #onStall(id: DatabaseId, { stalledMs, serverResponds }: Stall): Promise<void> {
    const state = serverResponds ? `is not executing one (${DEFECT_PAGE})` : 'responds to nothing'
    const problem = `libsql-server has not responded to a write for ${formatSeconds(stalledMs)} and ${state}`
    if (this.#options.getFile === null) {
      if (!this.#reportedStalls.has(id)) this.#options.onNotice(id, `${problem}: restart the server`)
      this.#reportedStalls.add(id)
      return
    }
    this.#options.onNotice(id, `${problem}: restarting it`)
    try {
      await this.#upstream.restart()
      this.#options.onNotice(id, 'libsql-server was restarted; acknowledged writes were kept')
    } catch (error) {
      this.#options.onNotice(id, `libsql-server could not be restarted: ${String(error)}`)
    }
  }
}

const formatSeconds = (ms: number): string => `${Math.round(ms / 1_000)} s`
