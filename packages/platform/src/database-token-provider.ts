import { checkOptions } from './check-options.ts'
import type { PlatformCallOptions } from './config.ts'
import { type CreateTokenOptions, type Databases, RIGHTS } from './routes/databases.ts'
import type { Groups } from './routes/groups.ts'
import { type DatabaseToken, readClaims } from './token.ts'

/** Which tokens a provider makes: of a database or of a group, and for how long. */
export type DatabaseTokenOptions = Omit<CreateTokenOptions, 'expiration' | keyof PlatformCallOptions> & {
  /** Life of each token: `15m`, `1h`, `1d12h`. */
  readonly ttl: string
} & (
    | { readonly database: string; readonly group?: undefined }
    | { readonly group: string; readonly database?: undefined }
  )

/** Gives a token that is valid. For `createClient({ authToken })`. */
export interface DatabaseTokenProvider {
  (): Promise<DatabaseToken>
  /** Lets the next call make a new token: after the tokens were rotated. */
  forget(): void
}

/** Part of a token's life after which a new one is made while it still serves, and after which it serves no more. */
const RENEW_AT = 0.75
const DROP_AT = 0.95

/** Time between two tries to renew a token that still serves, in ms. */
const RENEW_PAUSE_MS = 1_000

const UNITS_MS: Readonly<Record<string, number>> = { s: 1e3, m: 6e4, h: 3.6e6, d: 8.64e7, w: 6.048e8 }

/** What a provider knows; `forget` begins with a new one, so that a token that is on its way is not kept. */
interface State {
  token?: DatabaseToken
  /** Part of its life that is over. */
  age: () => number
  minting?: Promise<DatabaseToken> | undefined
  pauseUntil: number
}
const freshState = (): State => ({ age: () => 1, pauseUntil: 0 })

/**
 * Makes short tokens as they are needed: one at a time for all that ask, and the next before the last one ends. While a
 * token still serves, no call waits for the next, and a failure to make it is not reported.
 */
export function databaseTokenProvider(
  { databases, groups }: { readonly databases: Databases; readonly groups: Groups },
  options: DatabaseTokenOptions,
): DatabaseTokenProvider {
  checkOptions(options, { ...RIGHTS, ttl: 'string', database: 'string', group: 'string' })
  const { ttl, database, group, ...rights } = options
  if ((database === undefined) === (group === undefined))
    throw new TypeError('a token provider needs either database or group')
  const ttlMs = readTtl(ttl)
  let state = freshState()

  const mint = async (of: State): Promise<DatabaseToken> => {
    const age = stopwatch() // its life begins before it is there
    const mintOptions = { ...rights, expiration: ttl }
    const token =
      database === undefined
        ? await groups.createToken(group, mintOptions)
        : await databases.createToken(database, mintOptions)
    const lifeMs = lifeOf(token) ?? ttlMs
    Object.assign(of, { token, age: () => age() / lifeMs })
    return token
  }
  const shared = (of: State): Promise<DatabaseToken> =>
    (of.minting ??= mint(of).finally(() => (of.minting = undefined)))
  const provide = async (): Promise<DatabaseToken> => {
    const { token, minting, pauseUntil } = state
    const age = state.age()
    if (token === undefined || age >= DROP_AT) return await shared(state)
    if (age >= RENEW_AT && !minting && performance.now() >= pauseUntil) {
      const of = state
      shared(of).catch(() => (of.pauseUntil = performance.now() + RENEW_PAUSE_MS))
    }
    return token
  }
  return Object.assign(provide, { forget: () => void (state = freshState()) })
}

/** Time from now on in ms, by the clock that never goes back and by the wall's: the first stops while a machine sleeps. */
function stopwatch(): () => number {
  const begun = performance.now()
  const begunAt = Date.now()
  return () => Math.max(performance.now() - begun, Date.now() - begunAt)
}

/** How long a token lives by its own claims, in ms; null when it does not say. */
function lifeOf(token: string): number | null {
  const { exp, iat } = readClaims(token) ?? {}
  return typeof exp === 'number' && typeof iat === 'number' && exp > iat ? (exp - iat) * 1_000 : null
}

/** @throws TypeError for what is no length of time */
function readTtl(ttl: string): number {
  const parts = /^(\d+[smhdw])+$/.test(ttl) ? (ttl.match(/\d+./g) ?? []) : []
  const ms = parts.reduce((sum, part) => sum + parseInt(part, 10) * (UNITS_MS[part.slice(-1)] ?? 0), 0)
  if (ms > 0) return ms
  throw new TypeError(`ttl must be a length of time such as '15m', '1h' or '1d12h', not '${ttl}'`)
}
