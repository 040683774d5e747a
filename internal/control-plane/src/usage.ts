import { Readable } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type DatabaseBackend,
  type DatabaseId,
  type UsageSample,
  withTimeLimit,
} from '@batonsql/server-common/backend'
import type { ServiceResponse } from '@batonsql/server-common/http'
import type { Registry } from './registry/registry.ts'
import type { DatabaseRow } from './registry/rows.ts'

const HOUR_MS = 3_600_000
/** How long a database is sampled after its last use: libsql-server updates the size of a database about a second late. */
const SAMPLE_AFTER_USE_MS = 3_000
/**
 * Number of databases whose usage is recorded in one transaction. A transaction blocks all requests: smaller batches would wait for
 * the disk more often, larger ones would block for longer.
 */
const BATCH_SIZE = 100
/** Short, because the shutdown waits for two samples. */
const SAMPLE_LIMIT_MS = 2_000

/** Usage in a period, and the current storage. */
export interface UsageTotal {
  readonly rowsRead: number
  readonly rowsWritten: number
  readonly bytesSynced: number
  readonly storageBytes: number
}

export const NO_USAGE: UsageTotal = { rowsRead: 0, rowsWritten: 0, bytesSynced: 0, storageBytes: 0 }

/** A period in ms since the Unix epoch; it is evaluated in whole hours. */
export interface Period {
  readonly from: number
  readonly to: number
}

/**
 * Records the usage of databases by the hour. A back end's counts restart with its process, so differences are recorded
 * regularly.
 */
export class Usage {
  readonly #registry: Registry
  readonly #backend: DatabaseBackend
  readonly #limitMs: number
  /** The last batch of each group: one that does not respond delays only its own. */
  readonly #queues = new Map<string, Promise<unknown>>()
  /** When each database with unrecorded usage was last used, on a monotonic clock. */
  readonly #touched = new Map<DatabaseId, number>()
  readonly #bytesSynced = new Map<DatabaseId, number>()

  /** @param limitMs how long the server of a group may take for one sample before the rest of the group is skipped */
  constructor(registry: Registry, backend: DatabaseBackend, limitMs = SAMPLE_LIMIT_MS) {
    this.#registry = registry
    this.#backend = backend
    this.#limitMs = limitMs
  }

  /** Adds bytes that an export of a database has sent. */
  addBytesSynced(id: DatabaseId, bytes: number): void {
    this.touch(id)
    this.#bytesSynced.set(id, (this.#bytesSynced.get(id) ?? 0) + bytes)
  }

  /** Marks a database as used, so that the next sample includes it. */
  touch(id: DatabaseId): void {
    this.#touched.set(id, performance.now())
  }

  /** Marks a database as used after a response, and again after its body was sent. */
  onResponse(id: DatabaseId, body: ServiceResponse['body']): void {
    this.touch(id)
    if (body instanceof Readable) body.once('close', () => this.touch(id))
  }

  /** Records the usage of all databases that were used since the last sample. */
  async sampleTouched(): Promise<void> {
    const rows = [...this.#touched.keys()].flatMap((id) => this.#registry.databases.get(id) ?? [])
    const now = performance.now()
    await this.sample(rows)
    // databases that were used shortly before this sample, or during it, stay marked and are sampled again
    for (const [id, at] of this.#touched) if (now - at > SAMPLE_AFTER_USE_MS) this.#touched.delete(id)
  }

  /**
   * Records the current usage of databases. If the back end does not respond, the sample after the next use includes it.
   * @throws the first error, after all databases have been sampled
   */
  async sample(rows: readonly DatabaseRow[]): Promise<void> {
    const groups = Map.groupBy(rows, ({ group }) => group)
    const samplings = [...groups].map(async ([group, members]) => await this.#sampleGroup(group, members))
    const failure = (await Promise.allSettled(samplings)).find(({ status }) => status === 'rejected')
    if (failure?.status === 'rejected') throw failure.reason
  }

  async #sampleGroup(group: string, rows: readonly DatabaseRow[]): Promise<void> {
    const errors: unknown[] = []
    let isResponding = true
    for (let start = 0; start < rows.length && isResponding; start += BATCH_SIZE) {
      // requests are handled between batches
      if (start > 0) await nextTurn()
      // batches are queued individually, so that the removal of a database waits for only one of them
      const batch = rows.slice(start, start + BATCH_SIZE)
      isResponding = await this.#queueBatch(group, batch).catch((error: unknown) => {
        errors.push(error)
        return true
      })
    }
    if (errors.length > 0) throw errors[0]
  }

  /** Samples run one after another: an older count recorded after a newer one would look like a restart of the counter. */
  async #queueBatch(group: string, rows: readonly DatabaseRow[]): Promise<boolean> {
    const sampling = (this.#queues.get(group) ?? Promise.resolve()).then(() => this.#sampleBatch(rows))
    const ended = sampling.catch(() => {})
    this.#queues.set(group, ended)
    try {
      return await sampling
    } finally {
      if (this.#queues.get(group) === ended) this.#queues.delete(group)
    }
  }

  /** Samples databases of one server, until it does not respond. @returns whether it responds */
  async #sampleBatch(rows: readonly DatabaseRow[]): Promise<boolean> {
    const samples = new Map<DatabaseId, UsageSample>()
    let isResponding = true
    for (const { id } of rows) {
      if (this.#findMeasurable(id) === undefined) continue
      let hasEnded = false
      const read = async (): Promise<void> => {
        // a failed sample is also a response: the sample after the next use includes the usage
        const sample = await this.#backend.sampleUsage(id).catch(() => null)
        hasEnded = true
        if (sample !== null) samples.set(id, sample)
      }
      await withTimeLimit(read(), this.#limitMs)
      isResponding = hasEnded
      if (!isResponding) break
    }
    this.#record(samples)
    return isResponding
  }

  #record(samples: ReadonlyMap<DatabaseId, UsageSample>): void {
    const measured = [...samples].flatMap(([id, sample]) => {
      // it may have been removed meanwhile
      const row = this.#findMeasurable(id)
      return row === undefined ? [] : [{ row, sample }]
    })
    if (measured.length === 0) return
    this.#registry.transaction(() => {
      for (const { row, sample } of measured) this.#write(row, sample)
    })
    for (const { row } of measured) this.#bytesSynced.delete(row.id)
  }

  /** Returns a database, or undefined if its usage cannot be measured. */
  #findMeasurable(id: DatabaseId): DatabaseRow | undefined {
    const row = this.#registry.databases.get(id)
    return row?.state === 'creating' || row?.state === 'lost' ? undefined : row
  }

  getDatabaseUsage(id: DatabaseId, period: Period): UsageTotal {
    return this.getDatabaseUsages([id], period).get(id) ?? NO_USAGE
  }

  /** Returns the usage of databases, with a single query: a query for each would block requests for longer. */
  getDatabaseUsages(ids: readonly DatabaseId[], { from, to }: Period): ReadonlyMap<DatabaseId, UsageTotal> {
    const rows = this.#registry.file.all<UsageTotal & { readonly id: DatabaseId }>(
      `SELECT ids.value AS id, coalesce(sum(rows_read), 0) AS rowsRead, coalesce(sum(rows_written), 0) AS rowsWritten,
         coalesce(sum(bytes_synced), 0) AS bytesSynced,
         coalesce((SELECT storage_bytes FROM usage_sample WHERE database = ids.value), 0) AS storageBytes
       FROM (SELECT DISTINCT value FROM json_each(?)) AS ids
       LEFT JOIN usage_hour ON database = ids.value AND hour >= ? AND hour <= ?
       GROUP BY ids.value`,
      [JSON.stringify(ids), Math.floor(from / HOUR_MS), Math.floor(to / HOUR_MS)],
    )
    return new Map(rows.map(({ id, ...usage }) => [id, usage]))
  }

  /** Returns the usage of an organization, including removed databases, or of the existing databases of a group. */
  getOrganizationUsage(organization: string, { from, to }: Period, onlyGroup: string | null): UsageTotal {
    const rows = this.#registry.databases.rows.filter(
      (row) => row.organization === organization && (onlyGroup === null || row.group === onlyGroup),
    )
    const ids = rows.map(({ id }) => id)
    const [total = NO_USAGE] = this.#registry.file.all<UsageTotal>(
      `SELECT coalesce(sum(rows_read), 0) AS rowsRead, coalesce(sum(rows_written), 0) AS rowsWritten,
         coalesce(sum(bytes_synced), 0) AS bytesSynced,
         (SELECT coalesce(sum(storage_bytes), 0) FROM usage_sample
          WHERE database IN (SELECT value FROM json_each(?1))) AS storageBytes
       FROM usage_hour WHERE organization = ?2 AND hour >= ?3 AND hour <= ?4
         AND (?5 IS NULL OR database IN (SELECT value FROM json_each(?1)))`,
      [JSON.stringify(ids), organization, Math.floor(from / HOUR_MS), Math.floor(to / HOUR_MS), onlyGroup],
    )
    return total
  }

  /** Stores a sample, and adds its difference from the previous one to the current hour. */
  #write(row: DatabaseRow, sample: UsageSample): void {
    const { file } = this.#registry
    const previous = this.#getLastSample(row.id)
    const isSame = previous?.epoch === sample.epoch
    const { epoch, rowsRead, rowsWritten, storageBytes } = sample
    file.run('INSERT OR REPLACE INTO usage_sample VALUES (?, ?, ?, ?, ?)', [
      row.id,
      epoch,
      rowsRead,
      rowsWritten,
      storageBytes,
    ])
    // a lower count of the same process means that it has lost its latest count: counting nothing avoids counting usage twice
    const increase = (count: number, base: number): number => Math.max(0, count - base)
    this.#add(
      row,
      increase(rowsRead, isSame ? previous.rowsRead : 0),
      increase(rowsWritten, isSame ? previous.rowsWritten : 0),
    )
  }

  #getLastSample(id: DatabaseId): UsageSample | undefined {
    const sql = `SELECT epoch, rows_read AS rowsRead, rows_written AS rowsWritten, storage_bytes AS storageBytes
      FROM usage_sample WHERE database = ?`
    return this.#registry.file.all<UsageSample>(sql, [id])[0]
  }

  #add(row: DatabaseRow, rowsRead: number, rowsWritten: number): void {
    const bytesSynced = this.#bytesSynced.get(row.id) ?? 0
    if (rowsRead === 0 && rowsWritten === 0 && bytesSynced === 0) return
    this.#registry.file.run(
      `INSERT INTO usage_hour (database, hour, organization, rows_read, rows_written, bytes_synced)
       VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (database, hour, organization) DO UPDATE SET rows_read = rows_read + excluded.rows_read,
         rows_written = rows_written + excluded.rows_written, bytes_synced = bytes_synced + excluded.bytes_synced`,
      [row.id, Math.floor(Date.now() / HOUR_MS), row.organization, rowsRead, rowsWritten, bytesSynced],
    )
  }
}
