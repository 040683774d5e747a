import { type ExternalKey, readKeySet } from './external-key.ts'

/** How long what, in ms. */
interface KeySetTimes {
  /** A set is used without asking for it again. */
  readonly freshMs: number
  /** A set is used while its issuer does not answer. */
  readonly keptMs: number
  /** Between two requests for a set: unknown keys must not make it be asked for without end. */
  readonly pauseMs: number
}

const TIMES: KeySetTimes = { freshMs: 300_000, keptMs: 3_600_000, pauseMs: 10_000 }
const TIMEOUT_MS = 5_000
const MAX_BYTES = 262_144

interface Kept {
  keys: readonly ExternalKey[]
  /** By a clock that is never set. */
  fetchedAt: number
  triedAt: number
  fetching: Promise<void> | null
}

/** Key sets of issuers by URL: fetched when they are needed, kept, and fetched again for a key that is not in them. */
export class KeySets {
  readonly #times: KeySetTimes
  readonly #kept = new Map<string, Kept>()

  constructor(times = TIMES) {
    this.#times = times
  }

  /**
   * Whether some sets have a key; false, too, when its issuer has not answered for too long. Different keys may have the same name,
   * so that `isMeant` has to look at the signature.
   */
  async have(urls: readonly string[], isMeant: (key: ExternalKey) => boolean): Promise<boolean> {
    const { freshMs, keptMs } = this.#times
    if (this.#known(urls, freshMs).some(isMeant)) return true
    await Promise.all(urls.map((url) => this.#refresh(url)))
    return this.#known(urls, keptMs).some(isMeant)
  }

  #known(urls: readonly string[], withinMs: number): readonly ExternalKey[] {
    const isOfUse = ({ fetchedAt }: Kept): boolean => performance.now() - fetchedAt < withinMs
    const sets = urls.map((url) => this.#entry(url)).filter(isOfUse)
    return sets.flatMap(({ keys }) => keys)
  }

  async #refresh(url: string): Promise<void> {
    const kept = this.#entry(url)
    const isDue = performance.now() - kept.triedAt >= this.#times.pauseMs
    if (kept.fetching === null && isDue) kept.fetching = this.#fetch(url, kept)
    await kept.fetching
  }

  /** Forgets what was fetched from a URL. */
  forget(url: string): void {
    this.#kept.delete(url)
  }

  #entry(url: string): Kept {
    const known = this.#kept.get(url)
    if (known !== undefined) return known
    const made: Kept = { keys: [], fetchedAt: -Infinity, triedAt: -Infinity, fetching: null }
    this.#kept.set(url, made)
    return made
  }

  async #fetch(url: string, kept: Kept): Promise<void> {
    kept.triedAt = performance.now()
    try {
      kept.keys = readKeySet(await fetchText(url))
      kept.fetchedAt = performance.now()
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      console.error(`the key set ${url} could not be fetched: ${reason}`)
    } finally {
      kept.fetching = null
    }
  }
}

async function fetchText(url: string): Promise<string> {
  // a redirect would lead to where the operator has not agreed to
  const answer = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS) })
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of answer.body ?? []) {
    size += part.length
    if (size > MAX_BYTES) throw new Error('it is too large')
    parts.push(part)
  }
  if (answer.status !== 200) throw new Error(`HTTP ${answer.status}`)
  return Buffer.concat(parts).toString('utf8')
}
