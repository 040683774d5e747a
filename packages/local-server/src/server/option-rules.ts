import { isLocation, LOCATIONS, parseExpiration, parseSizeLimit } from '@batonsql/control-plane'
import { NON_EMPTY, type RulesOf, STRINGS } from '@batonsql/options'
import { RESERVED_NAMES } from '@batonsql/server-common/backend'
import type { DatabaseOptions, NewDatabaseOptions, TokenOptions } from './server-options.ts'

/** Whether a value is text that `parse` accepts. Text that the platform API treats as no limit (`''`, and `0` as a size) does not count. */
const isParsed = (parse: (text: string) => number | null, value: unknown): boolean => {
  try {
    return typeof value === 'string' && parse(value) !== null
  } catch {
    return false
  }
}

export const DATABASE_RULES: RulesOf<DatabaseOptions> = {
  sizeLimit: {
    text: 'a size such as 256mb, or null',
    isShown: true,
    accepts: (size) => size === null || isParsed(parseSizeLimit, size),
  },
  blockReads: 'boolean',
  blockWrites: 'boolean',
  blockReason: { text: 'string or null', accepts: (reason) => reason === null || typeof reason === 'string' },
  allowAttach: 'boolean',
}

export const NEW_DATABASE_RULES: RulesOf<NewDatabaseOptions> = {
  ...DATABASE_RULES,
  fromFile: NON_EMPTY,
  fromDatabase: 'string',
  fromSnapshot: 'string',
  isSchema: 'boolean',
  schema: 'string',
  group: 'string',
}

export const TOKEN_RULES: RulesOf<TokenOptions> = {
  authorization: ['full-access', 'read-only'],
  expiration: {
    text: "a duration such as '15m' or '2w1d', longer than 0, or 'never'",
    isShown: true,
    accepts: (text) => text === 'never' || isParsed(parseExpiration, text),
  },
  readAttach: STRINGS,
}

/** Checks the codes of locations. @param caller named in the error @throws TypeError for an unknown one */
export function checkLocations(caller: string, locations: readonly string[]): void {
  const unknown = locations.find((location) => !isLocation(location))
  if (unknown !== undefined)
    throw new TypeError(
      `${caller}: unknown location ${unknown}; the locations are ${Object.keys(LOCATIONS).join(', ')}`,
    )
}

/** Checks the name of a new database. @throws TypeError */
export function checkDatabaseName(name: string): void {
  if (!/^[a-z0-9][a-z0-9-]{0,63}$/.test(name) || RESERVED_NAMES.has(name)) {
    throw new TypeError(
      `"${name}" is not a valid database name: use 1 to 64 characters a-z, 0-9 and "-", not beginning with "-"; reserved names are ${[...RESERVED_NAMES].join(', ')}`,
    )
  }
}
