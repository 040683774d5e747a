import { stat } from 'node:fs/promises'
import type { DatabaseId } from '../backend/backend.ts'
import type { OwnRequests } from './own-requests.ts'
import type { Upstream } from './upstream.ts'
import { isWriteLockFree } from './write-lock.ts'
import { WriteTraffic } from './write-traffic.ts'
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

/** Keeps the logs of a server's databases small, and ends the server when it answers no write any more. */
export class WriteService {
  readonly traffic: WriteTraffic
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
    this.traffic = new WriteTraffic(
      fileOf === null
        ? null
        : {
            bytes: async (id) => (await stat(`${fileOf(id)}-wal`).catch(() => null))?.size ?? 0,
            checkpoint: async (id) => (await upstream.alive()).admin.checkpoint(id),
          },
    )
    this.#watch = new WriteWatch(
      {
        silentMs: () => this.traffic.silentMs(),
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
    const silentMs = this.traffic.silentMs().get(id) ?? 0
    const { fileOf } = this.#options
    const isAtWork = fileOf !== null && isWriteLockFree(fileOf(id)) === false
    if (silentMs > this.#times.patienceMs && !isAtWork)
      return `libsql-server has answered no write for ${seconds(silentMs)}`
    return (await this.#upstream.responds(RESPONSE_MS)) ? null : 'libsql-server does not answer'
  }

  close(): void {
    this.#watch.close()
    this.traffic.close()
  }

  async #probe(id: DatabaseId): Promise<void> {
    const answer = await this.#own.run(id, TAKE_AND_GIVE_BACK)
    answer.resume()
    this.traffic.noteAnswer(id)
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
