import { checkOptions } from '../base/check-options.ts'
import type { PlatformHttp } from './platform-http.ts'
import { type DatabaseToken, readClaims } from './platform-token.ts'
import type { Databases } from './resources/databases.ts'
import type { Groups } from './resources/groups.ts'
import { MINT, type MintOptions } from './resources/token-options.ts'

/** Which tokens a provider makes: of a database or of a group, and for how long. */
export type DatabaseTokenOptions = Omit<MintOptions, 'expiration'> & {
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

const { expiration: _, ...RIGHTS } = MINT
const RULES = { ...RIGHTS, ttl: 'string', database: 'string', group: 'string' }

const UNITS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}

/** Part of a token's life after which a new one is made while it still serves, and after which it serves no more. */
const RENEW_AT = 0.75
const DROP_AT = 0.95

/** Time between two tries to renew a token that still serves, in ms. */
const RENEW_PAUSE_MS = 1_000

interface Held {
  readonly token: DatabaseToken
  /** Both by the clock that never goes back and by the wall's: a machine that slept is late by the first. */
  readonly begun: number
  readonly begunAt: number
  readonly lifeMs: number
}

/**
 * Makes short tokens as they are needed: one at a time for whoever asks, and the next before the last one ends. While a
 * token still serves, nobody waits for the next, and its failure is not told.
 */
export function databaseTokenProvider(
  { clock }: PlatformHttp,
  { databases, groups }: { readonly databases: Databases; readonly groups: Groups },
  options: DatabaseTokenOptions,
): DatabaseTokenProvider {
  checkOptions(options, RULES)
  const { ttl, database, group, ...rights } = options
  if ((database === undefined) === (group === undefined))
    throw new TypeError('a token provider needs either database or group')
  const ttlMs = readTtl(ttl)
  let held: Held | null = null
  let minting: Promise<DatabaseToken> | null = null
  let generation = 0
  let pauseUntil = 0

  const mint = async (): Promise<DatabaseToken> => {
    const of = generation
    // its life begins before it is there
    const begun = clock.now()
    const begunAt = Date.now()
    const mintOptions = { ...rights, expiration: ttl }
    const token =
      database === undefined
        ? await groups.createToken(group, mintOptions)
        : await databases.createToken(database, mintOptions)
    // one that was made before `forget` serves whoever waits for it, and no one else
    if (of === generation) held = { token, begun, begunAt, lifeMs: lifeOf(token) ?? ttlMs }
    return token
  }
  const shared = (): Promise<DatabaseToken> => {
    const mine: Promise<DatabaseToken> = (minting ??= mint().finally(() => {
      if (minting === mine) minting = null
    }))
    return mine
  }
  const ageOf = ({ begun, begunAt, lifeMs }: Held): number =>
    Math.max(clock.now() - begun, Date.now() - begunAt) / lifeMs
  const provide = async (): Promise<DatabaseToken> => {
    const age = held ? ageOf(held) : 1
    if (!held || age >= DROP_AT) return await shared()
    if (age >= RENEW_AT && !minting && clock.now() >= pauseUntil) {
      shared().catch(() => {
        pauseUntil = clock.now() + RENEW_PAUSE_MS
      })
    }
    return held.token
  }
  return Object.assign(provide, {
    forget() {
      generation += 1
      held = null
      minting = null
    },
  })
}

/** How long a token lives by its own word, in ms; null when it does not say. */
function lifeOf(token: string): number | null {
  const { exp, iat } = readClaims(token) ?? {}
  return typeof exp === 'number' && typeof iat === 'number' && exp > iat ? (exp - iat) * 1_000 : null
}

/** @throws TypeError for what is no length of time */
function readTtl(ttl: string): number {
  const parts = [...(/^(?:\d+[smhdw])+$/.exec(ttl)?.[0].matchAll(/(\d+)([smhdw])/g) ?? [])]
  const ms = parts.reduce(
    (sum, [, count, unit]) => sum + Number(count) * (UNITS[unit as string] as number),
    0,
  )
  if (ms === 0)
    throw new TypeError(`ttl must be a length of time such as '15m', '1h' or '1d12h', not '${ttl}'`)
  return ms
}
