import { randomUUID } from 'node:crypto'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ApiError } from '../api-error.ts'
import { type DumpBudget, DumpShare } from './dump-budget.ts'

export const MAX_DUMP_BYTES = 256 * 1_024 ** 2
const FETCH_TIMEOUT_MS = 60_000
/** Limits of the stored dumps of one organization; when they are exceeded, the oldest dumps are removed. */
const MAX_DUMPS = 16
const MAX_STORED_BYTES = 2 * MAX_DUMP_BYTES
/** Limit for the total size of all dumps that are being received or stored; a dump that would exceed it is rejected. */
const MAX_TOTAL_BYTES = 4 * MAX_DUMP_BYTES
/** How long an unused dump is stored. */
const MAX_AGE_MS = 3_600_000
const DUMP_PATH = '/v1/dumps/'

interface StoredDump {
  readonly organization: string
  readonly file: string
  readonly size: number
  readonly share: DumpShare
  readonly expiry: NodeJS.Timeout
}

/** Stores SQL dumps until a database is created from them. They do not survive a restart of the server. */
export class DumpStore {
  readonly #directory: string
  readonly #dumps = new Map<string, StoredDump>()
  readonly #budget: DumpBudget = { maxBytes: MAX_TOTAL_BYTES, usedBytes: 0 }

  private constructor(directory: string) {
    this.#directory = directory
  }

  /** Creates the store in a directory, and removes any files that an earlier server left there. */
  static async open(directory: string): Promise<DumpStore> {
    await rm(directory, { recursive: true, force: true })
    await mkdir(directory, { recursive: true, mode: 0o700 })
    return new DumpStore(directory)
  }

  /**
   * Returns a share of the budget for a dump that is being received; its bytes count until it is released.
   * @throws ApiError 503 from `take`, if the total limit is exceeded
   */
  createShare(): DumpShare {
    return new DumpShare(this.#budget)
  }

  /**
   * Stores an organization's dump for an hour.
   * @param share the share that was held while the dump was received. The stored dump keeps it; it is released if storing fails.
   * @returns the path of its URL
   * @throws ApiError 503
   */
  async store(organization: string, content: Uint8Array, share = this.createShare()): Promise<string> {
    const id = randomUUID()
    const size = content.length
    let file: string
    try {
      share.resize(size)
      file = await this.#write(content)
    } catch (error) {
      share.release()
      throw error
    }
    // a file that cannot be removed is removed at the next start
    const expire = (): void => void this.#drop(id).catch(() => {})
    const expiry = setTimeout(expire, MAX_AGE_MS).unref()
    this.#dumps.set(id, { organization, file, size, expiry, share })
    let count = 0
    let bytes = 0
    // newest first
    for (const [dumpId, dump] of [...this.#dumps].reverse()) {
      if (dump.organization !== organization) continue
      count += 1
      bytes += dump.size
      if (count > MAX_DUMPS || bytes > MAX_STORED_BYTES) await this.#drop(dumpId)
    }
    return `${DUMP_PATH}${id}`
  }

  /**
   * Returns the file of a dump that the organization has uploaded, or downloads a dump from any other URL. The caller removes the file.
   * @param baseUrl URL of this API, with which the URLs of uploaded dumps begin
   * @throws ApiError 400 if there is no such dump or it cannot be downloaded, 503 if the total limit is exceeded
   */
  async take(organization: string, url: string, baseUrl: string): Promise<string> {
    if (!url.startsWith(`${baseUrl}${DUMP_PATH}`)) return await this.#fetch(url)
    const id = url.slice(baseUrl.length + DUMP_PATH.length)
    const dump = this.#dumps.get(id)
    if (dump?.organization !== organization) throw new ApiError(400, 'dump not found')
    this.#forget(id)
    return dump.file
  }

  /** Removes all stored dumps and their files. */
  async close(): Promise<void> {
    await Promise.all([...this.#dumps.keys()].map((id) => this.#drop(id)))
  }

  async #drop(id: string): Promise<void> {
    const dump = this.#forget(id)
    if (dump !== undefined) await rm(dump.file, { force: true })
  }

  /** Removes a dump, but not its file. */
  #forget(id: string): StoredDump | undefined {
    const dump = this.#dumps.get(id)
    this.#dumps.delete(id)
    clearTimeout(dump?.expiry)
    dump?.share.release()
    return dump
  }

  async #fetch(url: string): Promise<string> {
    const share = this.createShare()
    try {
      return await this.#write(await download(url, share))
    } finally {
      share.release()
    }
  }

  async #write(content: Uint8Array): Promise<string> {
    const file = join(this.#directory, `${randomUUID()}.sql`)
    try {
      await writeFile(file, content, { mode: 0o600 })
    } catch (error) {
      // on a full disk, the part that was written takes up space
      await rm(file, { force: true })
      throw error
    }
    return file
  }
}

async function download(url: string, share: DumpShare): Promise<Uint8Array> {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url))
    throw new ApiError(400, 'the URL of a dump must begin with http:// or https://')
  try {
    const response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(FETCH_TIMEOUT_MS) })
    if (!response.ok) throw new Error(`status ${response.status}`)
    const parts: Uint8Array[] = []
    let size = 0
    for await (const part of response.body ?? []) {
      size += part.length
      if (size > MAX_DUMP_BYTES) throw new Error(`it is larger than ${MAX_DUMP_BYTES} bytes`)
      share.take(part.length)
      parts.push(part)
    }
    return Buffer.concat(parts)
  } catch (error) {
    if (error instanceof ApiError) throw error
    throw new ApiError(
      400,
      `the dump could not be fetched: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
}
