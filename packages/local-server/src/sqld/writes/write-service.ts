import { stat } from 'node:fs/promises'
import type { DatabaseId } from '../../backend/backend.ts'
import type { OwnRequests } from '../process/own-requests.ts'
import type { Upstream } from '../process/upstream.ts'
import type { WriteEffect } from '../request/write-effect.ts'
import { LogKeeper } from './log-keeper.ts'
import { type StreamWrites, WriteGate } from './write-gate.ts'
import { isWriteLockFree } from './write-lock.ts'
import { WritePass } from './write-pass.ts'
import { WATCH_TIMES, type WatchTimes, WriteWatch } from './write-watch.ts'

/** How the writes to one server are looked after. */
export interface WriteServiceOptions {
  /** The file of a database; null for a server elsewhere, which keeps its logs by itself and is never ended. */
  readonly fileOf: ((id: DatabaseId) => string) | null
  /** Says what happened. */
  readonly onNotice: (id: DatabaseId, text: string) => void
  readonly watchTimes: WatchTimes | undefined
}

/** How long the server may take to say that it is there. */
const RESPONSE_MS = 3_000
const TAKE_AND_GIVE_BACK = 'BEGIN IMMEDIATE; ROLLBACK'
const DEFECT = 'docs/libsql-server-lost-writer.md'

interface Database {
  readonly gate: WriteGate
  /** Null for a server elsewhere. */
  readonly keeper: LogKeeper | null
}

/**
 * The requests to one server that may write: they pass a gate. Keeps the logs of its databases small, and ends the server
 * when it answers no write any more.
 */
export class WriteService {
  readonly #databases = new Map<DatabaseId, Database>()
  readonly #upstream: Upstream
  readonly #own: OwnRequests
  readonly #options: WriteServiceOptions
  readonly #times: WatchTimes
  readonly #watch: WriteWatch
  /** Databases of which was said that they do not answer. */
  readonly #silent = new Set<DatabaseId>()

  constructor(upstream: Upstream, own: OwnRequests, options: WriteServiceOptions) {
    this.#upstream = upstream
    this.#own = own
    this.#options = options
    this.#times = options.watchTimes ?? WATCH_TIMES
    const { fileOf } = options
    this.#watch = new WriteWatch(
      {
        silentMs: () => new Map([...this.#databases].map(([each, { gate }]) => [each, gate.silentMs])),
        probe: (id) => this.#probe(id),
        responds: () => upstream.responds(RESPONSE_MS),
        // elsewhere, another client's statement may hold it: nothing is ended there
        isLockFree: async (id) => (fileOf === null ? true : isWriteLockFree(fileOf(id))),
        dead: (id, silentMs) => this.#dead(id, silentMs),
      },
      this.#times,
    )
  }

  /** What is wrong with the server of a database; null for nothing. */
  async troubleOf(id: DatabaseId): Promise<string | null> {
    const silentMs = this.#databases.get(id)?.gate.silentMs ?? 0
    const { fileOf } = this.#options
    const isAtWork = fileOf !== null && isWriteLockFree(fileOf(id)) === false
    if (silentMs > this.#times.patienceMs && !isAtWork)
      return `libsql-server has answered no write for ${seconds(silentMs)}`
    return (await this.#upstream.responds(RESPONSE_MS)) ? null : 'libsql-server does not answer'
  }

  /** Waits until a request may be sent. Rejects when its client leaves meanwhile. */
  async enter(
    id: DatabaseId,
    stream: StreamWrites,
    effect: WriteEffect,
    signal: AbortSignal,
  ): Promise<WritePass> {
    const { gate, keeper } = this.#of(id)
    await gate.enter(stream, effect, signal)
    return new WritePass(gate, stream, effect, effect.mayWrite ? () => keeper?.written() : () => {})
  }

  /** A database was written to by a way of its own. */
  written(id: DatabaseId): void {
    this.#of(id).keeper?.written()
  }

  /** All streams of a database are gone. */
  forgetStreams(id: DatabaseId): void {
    this.#databases.get(id)?.gate.forgetIdle()
  }

  /** The server has ended, and all streams with it. */
  forgetAllStreams(): void {
    for (const { gate } of this.#databases.values()) {
      gate.forgetIdle()
      gate.noteAnswer()
    }
  }

  /** A database is gone. */
  remove(id: DatabaseId): void {
    this.#databases.get(id)?.keeper?.close()
    this.#databases.delete(id)
  }

  close(): void {
    this.#watch.close()
    for (const id of this.#databases.keys()) this.remove(id)
  }

  #of(id: DatabaseId): Database {
    const known = this.#databases.get(id)
    if (known !== undefined) return known
    const gate = new WriteGate()
    const file = this.#options.fileOf?.(id)
    const log = {
      bytes: async () => (await stat(`${file}-wal`).catch(() => null))?.size ?? 0,
      checkpoint: async () => (await this.#upstream.alive()).admin.checkpoint(id),
    }
    const made = { gate, keeper: file === undefined ? null : new LogKeeper(gate, log) }
    this.#databases.set(id, made)
    return made
  }

  async #probe(id: DatabaseId): Promise<void> {
    const answer = await this.#own.run(id, TAKE_AND_GIVE_BACK)
    answer.resume()
    this.#databases.get(id)?.gate.noteAnswer()
    this.#silent.delete(id)
  }

  async #dead(id: DatabaseId, silentMs: number): Promise<void> {
    const what = `libsql-server has answered no write for ${seconds(silentMs)}, and none of them ran (${DEFECT})`
    if (this.#options.fileOf === null) {
      if (!this.#silent.has(id)) this.#options.onNotice(id, `${what}: it has to be started again`)
      this.#silent.add(id)
      return
    }
    this.#options.onNotice(id, `${what}: it is ended and started again`)
    await this.#upstream.restart()
    this.#options.onNotice(id, 'libsql-server runs again; what was acknowledged is there')
  }
}

const seconds = (ms: number): string => `${Math.round(ms / 1_000)} s`
