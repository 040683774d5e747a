import type { JWTPayload, JWTVerifyGetKey, JWTVerifyOptions } from 'jose'

/** Cache lifetimes and time limits of a key set, in ms. */
interface KeySetTimes {
  /** How long a set is used without being fetched again. */
  readonly freshMs: number
  /** Maximum age of a set that is used while its issuer is unreachable. */
  readonly staleMs: number
  /** Minimum time between two requests for a set, so that tokens with unknown keys do not each cause a request. */
  readonly pauseMs: number
  /** Time limit of one request. */
  readonly timeoutMs: number
}

const DEFAULT_TIMES: KeySetTimes = { freshMs: 300_000, staleMs: 3_600_000, pauseMs: 10_000, timeoutMs: 5_000 }
const MAX_KEY_SET_BYTES = 262_144
const VERIFY_OPTIONS: JWTVerifyOptions = {
  algorithms: ['RS256', 'ES256', 'EdDSA'],
  requiredClaims: ['exp'],
  clockTolerance: 60,
}

interface CachedSet {
  /** Finds the key of a token; null before the first successful fetch. */
  getKey: JWTVerifyGetKey | null
  /** On the monotonic clock, like `triedAt`: a removed key must not stay valid because the system clock was set back. */
  fetchedAt: number
  triedAt: number
  fetching: Promise<void> | null
}

/**
 * Verifies tokens with the key sets of issuers (JWKS), which it fetches on demand and caches by URL. `jose` is also loaded on
 * demand, because most servers have no key set.
 */
export class KeySets {
  readonly #times: KeySetTimes
  readonly #cache = new Map<string, CachedSet>()

  constructor(times = DEFAULT_TIMES) {
    this.#times = times
  }

  /**
   * Returns the claims of a token signed with a key in one of the sets; null for any other token. If no fresh set verifies it,
   * all sets are fetched again: the key may be new, or may have replaced one with the same id.
   * @throws JWTExpired or JWTClaimValidationFailed for a signed token that is not valid now
   */
  async verify(urls: readonly string[], token: string): Promise<JWTPayload | null> {
    const { freshMs, staleMs } = this.#times
    const claims = await this.#verifyWithin(freshMs, urls, token)
    if (claims !== null) return claims
    await Promise.all(urls.map((url) => this.#refresh(url)))
    return await this.#verifyWithin(staleMs, urls, token)
  }

  /** Removes the cached set of a URL. */
  forget(url: string): void {
    this.#cache.delete(url)
  }

  async #verifyWithin(maxAgeMs: number, urls: readonly string[], token: string): Promise<JWTPayload | null> {
    for (const url of urls) {
      const { getKey, fetchedAt } = this.#getEntry(url)
      const isUsable = getKey !== null && performance.now() - fetchedAt < maxAgeMs
      const claims = isUsable ? await verifyWith(getKey, token) : null
      if (claims !== null) return claims
    }
    return null
  }

  async #refresh(url: string): Promise<void> {
    const entry = this.#getEntry(url)
    const isDue = performance.now() - entry.triedAt >= this.#times.pauseMs
    if (entry.fetching === null && isDue) entry.fetching = this.#fetch(url, entry)
    await entry.fetching
  }

  #getEntry(url: string): CachedSet {
    const existing = this.#cache.get(url)
    if (existing !== undefined) return existing
    const entry: CachedSet = { getKey: null, fetchedAt: -Infinity, triedAt: -Infinity, fetching: null }
    this.#cache.set(url, entry)
    return entry
  }

  async #fetch(url: string, entry: CachedSet): Promise<void> {
    entry.triedAt = performance.now()
    try {
      const { createLocalJWKSet } = await import('jose/jwks/local')
      entry.getKey = createLocalJWKSet(JSON.parse(await fetchText(url, this.#times.timeoutMs)))
      entry.fetchedAt = performance.now()
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      console.error(`the key set ${url} could not be fetched: ${reason}`)
    } finally {
      entry.fetching = null
    }
  }
}

/** Returns the claims of a token; null if the key is not in the set, cannot be used, or has not signed the token. */
async function verifyWith(getKey: JWTVerifyGetKey, token: string): Promise<JWTPayload | null> {
  const { JWKSMultipleMatchingKeys, JWTClaimValidationFailed, JWTExpired } = await import('jose/errors')
  const { jwtVerify } = await import('jose/jwt/verify')
  try {
    return (await jwtVerify(token, getKey, VERIFY_OPTIONS)).payload
  } catch (error) {
    // claims are validated after the signature
    if (error instanceof JWTExpired || error instanceof JWTClaimValidationFailed) throw error
    if (!(error instanceof JWKSMultipleMatchingKeys)) return null
    for await (const key of error) {
      const claims = await verifyWith(() => key, token)
      if (claims !== null) return claims
    }
    return null
  }
}

async function fetchText(url: string, timeoutMs: number): Promise<string> {
  // a redirect could lead to an unapproved host
  const response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(timeoutMs) })
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of response.body ?? []) {
    size += part.length
    if (size > MAX_KEY_SET_BYTES) throw new Error('it is too large')
    parts.push(part)
  }
  if (response.status !== 200) throw new Error(`HTTP ${response.status}`)
  return Buffer.concat(parts).toString('utf8')
}
