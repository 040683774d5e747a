import { checkOptions } from '@batonsql/options'
import type { PlatformCallOptions } from './config.ts'
import { type CreateTokenOptions, type Databases, PERMISSIONS } from './routes/databases.ts'
import type { Groups } from './routes/groups.ts'
import { type DatabaseToken, readClaims } from './token.ts'
import { copyJson } from './view.ts'

/** Kind and lifetime of the tokens that a provider creates, for a database or for a group. */
export type DatabaseTokenOptions = Omit<CreateTokenOptions, keyof PlatformCallOptions> & {
  /** Lifetime of each token: `15m`, `1h`, `1d12h`. */
  readonly expiration: string
} & (
    | { readonly database: string; readonly group?: undefined }
    | { readonly group: string; readonly database?: undefined }
  )

/** Returns a valid token, for `createClient({ authToken })`. */
export interface DatabaseTokenProvider {
  (): Promise<DatabaseToken>
  /** Discards the current token, for example after a rotation, so that the next call creates one. */
  forget(): void
}

/** Fraction of a token's lifetime after which it is renewed in the background. */
const RENEWAL_FRACTION = 0.75
/** Fraction of a token's lifetime after which it is no longer used. */
const EXPIRY_FRACTION = 0.95

/** Delay between attempts to renew a token that is still valid, in ms. */
const RENEWAL_RETRY_MS = 1_000

const UNITS_MS: Readonly<Record<string, number>> = { s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8 }

/** State of a provider; `forget` replaces it, so that a token that is being created is discarded. */
interface State {
  token?: DatabaseToken
  /** Returns the fraction of its lifetime that has passed. */
  usedFraction: () => number
  pendingToken?: Promise<DatabaseToken> | undefined
  /** Time on the clock of `performance.now` before which a failed renewal is not repeated. */
  pauseUntil: number
}
const freshState = (): State => ({ usedFraction: () => 1, pauseUntil: 0 })

/**
 * Returns a function that creates short-lived tokens on demand, with one request for all callers, and the next token before the
 * current one expires. Until 95 % of a token's lifetime, no call waits for the next one, and a failed renewal is not reported.
 */
export function databaseTokenProvider(
  { databases, groups }: { readonly databases: Databases; readonly groups: Groups },
  options: DatabaseTokenOptions,
): DatabaseTokenProvider {
  checkOptions(options, { ...PERMISSIONS, expiration: 'string', database: 'string', group: 'string' })
  const { expiration, database, group, ...permissions } = copyJson(options)
  if ((database === undefined) === (group === undefined))
    throw new TypeError('a token provider needs either database or group')
  const expirationMs = parseDuration(expiration)
  let state = freshState()

  const mint = async (target: State): Promise<DatabaseToken> => {
    const elapsedMs = stopwatch() // the lifetime of a token begins before the token arrives
    const tokenOptions = { ...permissions, expiration }
    const token =
      database === undefined
        ? await groups.createToken(group, tokenOptions)
        : await databases.createToken(database, tokenOptions)
    const lifetimeMs = readLifetime(token) ?? expirationMs
    Object.assign(target, { token, usedFraction: () => elapsedMs() / lifetimeMs })
    return token
  }
  const mintOnce = (target: State): Promise<DatabaseToken> =>
    (target.pendingToken ??= mint(target).finally(() => (target.pendingToken = undefined)))
  const provide = async (): Promise<DatabaseToken> => {
    const current = state
    const { token, pendingToken, pauseUntil } = current
    const usedFraction = current.usedFraction()
    if (token === undefined || usedFraction >= EXPIRY_FRACTION) {
      const newToken = await mintOnce(current).catch((error: unknown) => {
        if (state === current) throw error
      })
      // if `forget` was called meanwhile, the new token is discarded too, and so is an error
      return newToken !== undefined && state === current ? newToken : await provide()
    }
    if (usedFraction >= RENEWAL_FRACTION && !pendingToken && performance.now() >= pauseUntil)
      mintOnce(current).catch(() => (current.pauseUntil = performance.now() + RENEWAL_RETRY_MS))
    return token
  }
  return Object.assign(provide, { forget: () => void (state = freshState()) })
}

/** Measures time in ms with both the monotonic and the wall clock, because the monotonic one stops while a machine sleeps. */
function stopwatch(): () => number {
  const startedAt = performance.now()
  const startedAtWallClock = Date.now()
  return () => Math.max(performance.now() - startedAt, Date.now() - startedAtWallClock)
}

/** Returns the lifetime in a token's claims, in ms; null if it has none. */
function readLifetime(token: string): number | null {
  const { exp, iat } = readClaims(token) ?? {}
  return typeof exp === 'number' && typeof iat === 'number' && exp > iat ? (exp - iat) * 1_000 : null
}

/** Parses a duration into ms. @throws TypeError if it is invalid or 0 */
function parseDuration(expiration: string): number {
  const parts = /^(\d+[smhdw])+$/.test(expiration) ? (expiration.match(/\d+./g) ?? []) : []
  const ms = parts.reduce((sum, part) => sum + parseInt(part, 10) * (UNITS_MS[part.slice(-1)] ?? 0), 0)
  if (ms > 0) return ms
  throw new TypeError(`expiration must be a duration such as '15m', '1h' or '1d12h', not '${expiration}'`)
}
