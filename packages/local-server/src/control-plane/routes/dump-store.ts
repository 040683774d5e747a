import { randomUUID } from 'node:crypto'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Refusal } from '../refusal.ts'

/** The largest dump that is taken, in bytes. */
export const MAX_DUMP_BYTES = 256 * 1_024 ** 2
const FETCH_TIMEOUT_MS = 60_000
/** Dumps of an organization that wait to be used; of more, the oldest go. */
const MAX_KEPT = 16
const PATH = '/v1/dumps/'

/** SQL dumps on their way into new databases. They do not outlive the server. */
export class DumpStore {
  readonly #directory: string
  readonly #kept = new Map<string, { readonly organization: string; readonly file: string }>()

  private constructor(directory: string) {
    this.#directory = directory
  }

  /** Takes a folder of its own; what an earlier server left there goes. */
  static async open(directory: string): Promise<DumpStore> {
    await rm(directory, { recursive: true, force: true })
    await mkdir(directory, { recursive: true, mode: 0o700 })
    return new DumpStore(directory)
  }

  /** Keeps a dump for an organization; resolves with the path of its URL. */
  async keep(organization: string, content: Uint8Array): Promise<string> {
    const id = randomUUID()
    const file = await this.#write(content)
    this.#kept.set(id, { organization, file })
    const own = [...this.#kept].filter(([, dump]) => dump.organization === organization)
    for (const [oldest, dump] of own.slice(0, -MAX_KEPT)) {
      this.#kept.delete(oldest)
      await rm(dump.file, { force: true })
    }
    return `${PATH}${id}`
  }

  /**
   * The file of a dump: one that the organization has uploaded, or what another server answers. Whoever asks removes it.
   * @throws Refusal
   */
  async take(organization: string, url: string, ownUrl: string): Promise<string> {
    if (!url.startsWith(`${ownUrl}${PATH}`)) return await this.#write(await download(url))
    const id = url.slice(ownUrl.length + PATH.length)
    const dump = this.#kept.get(id)
    if (dump?.organization !== organization) throw new Refusal(400, 'there is no such dump')
    this.#kept.delete(id)
    return dump.file
  }

  async #write(content: Uint8Array): Promise<string> {
    const file = join(this.#directory, `${randomUUID()}.sql`)
    await writeFile(file, content, { mode: 0o600 })
    return file
  }
}

async function download(url: string): Promise<Uint8Array> {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url))
    throw new Refusal(400, 'the URL of a dump begins with http:// or https://')
  try {
    const answer = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(FETCH_TIMEOUT_MS) })
    if (!answer.ok) throw new Error(`status ${answer.status}`)
    const parts: Uint8Array[] = []
    let size = 0
    for await (const part of answer.body ?? []) {
      size += part.length
      if (size > MAX_DUMP_BYTES) throw new Error(`it is larger than ${MAX_DUMP_BYTES} bytes`)
      parts.push(part)
    }
    return Buffer.concat(parts)
  } catch (error) {
    throw new Refusal(
      400,
      `the dump could not be fetched: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
}
