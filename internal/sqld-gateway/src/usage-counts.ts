import { randomUUID } from 'node:crypto'
import {
  type DatabaseId,
  MissingFileError,
  type QueryUsage,
  type UsageSample,
} from '@batonsql/server-common/backend'
import type { Upstream } from './process/upstream.ts'

export interface UsageCountsOptions {
  /** Whether libsql-server was given by URL. */
  readonly isRemote: boolean
  /** Whether a database has its file. If not, asking libsql-server for its counts would create an empty database. */
  readonly hasFile: (id: DatabaseId) => boolean
}

interface Counts {
  readonly rowsRead: number
  readonly rowsWritten: number
}

/**
 * The usage of each database since libsql-server started. It keeps its own counts across restarts, so the counts with which it started
 * are subtracted.
 */
export class UsageCounts {
  readonly #upstream: Pick<Upstream, 'withAdmin'>
  readonly #options: UsageCountsOptions
  /** Distinguishes the counts since this start from earlier ones. */
  #epoch = ''
  /** What libsql-server had counted before the first request to each database since its start. */
  readonly #baseCounts = new Map<DatabaseId, Promise<Counts>>()

  constructor(upstream: Pick<Upstream, 'withAdmin'>, options: UsageCountsOptions) {
    this.#upstream = upstream
    this.#options = options
  }

  /** Called when libsql-server has started. The start time of a remote one is unknown: nothing is subtracted from its counts. */
  restart(): void {
    this.#epoch = this.#options.isRemote ? 'remote' : randomUUID()
    this.#baseCounts.clear()
  }

  /**
   * Must be called before a request is sent, so that the request is counted.
   * @throws MissingFileError if the database has no file and its first counts are still unknown
   */
  async begin(id: DatabaseId): Promise<void> {
    await this.#getBaseCounts(id).catch((error: unknown) => {
      // after other errors, the next request or sample begins to count
      if (error instanceof MissingFileError) throw error
    })
  }

  /** Returns the usage of a database. @throws MissingFileError, as `begin`; an error of libsql-server */
  async sample(id: DatabaseId): Promise<UsageSample> {
    for (;;) {
      const epoch = this.#epoch
      const base = await this.#getBaseCounts(id)
      const stats = await this.#upstream.withAdmin((admin) => admin.stats(id))
      // counts of different starts cannot be subtracted
      if (epoch === this.#epoch)
        return {
          epoch,
          rowsRead: stats.rows_read_count - base.rowsRead,
          rowsWritten: stats.rows_written_count - base.rowsWritten,
          storageBytes: stats.storage_bytes_used,
        }
    }
  }

  /** Returns the queries that read and wrote the most rows, as libsql-server counts them: nothing is subtracted. */
  async topQueries(id: DatabaseId): Promise<readonly QueryUsage[]> {
    const { top_queries: queries = [] } = await this.#upstream.withAdmin((admin) => admin.stats(id))
    return queries.map(({ query, rows_read, rows_written }) => ({
      query,
      rowsRead: rows_read,
      rowsWritten: rows_written,
    }))
  }

  forget(id: DatabaseId): void {
    this.#baseCounts.delete(id)
  }

  async #getBaseCounts(id: DatabaseId): Promise<Counts> {
    if (this.#options.isRemote) return { rowsRead: 0, rowsWritten: 0 }
    const existing = this.#baseCounts.get(id)
    if (existing !== undefined) return await existing
    if (!this.#options.hasFile(id)) throw new MissingFileError()
    const reading = this.#upstream
      .withAdmin((admin) => admin.stats(id))
      .then((stats) => ({ rowsRead: stats.rows_read_count, rowsWritten: stats.rows_written_count }))
    this.#baseCounts.set(id, reading)
    reading.catch(() => {
      if (this.#baseCounts.get(id) === reading) this.#baseCounts.delete(id)
    })
    return await reading
  }
}
