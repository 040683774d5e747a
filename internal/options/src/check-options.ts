type TypeName = 'string' | 'number' | 'bigint' | 'boolean' | 'function' | 'object'

/** A condition, worded for errors. */
export interface Condition {
  readonly text: string
  readonly accepts: (value: unknown) => boolean
  /** Whether errors show a string that is not accepted: only if it cannot be a secret. @default false */
  readonly isShown?: boolean
}

/** What an option must be: a value of one of several types, one of several words, or one that meets a condition. */
export type Rule =
  | TypeName
  | `${TypeName} or ${TypeName}`
  | 'string or number or bigint'
  | readonly string[]
  | Condition

export type RulesOf<Options> = { readonly [Name in keyof Options]-?: Rule }

const isNumber = (value: unknown): value is number => typeof value === 'number'
export const TIME: Condition = {
  text: 'a positive number of milliseconds below 2^31, or Infinity',
  // timers are limited to 32 bits
  accepts: (value) => isNumber(value) && value > 0 && (value < 2 ** 31 || value === Infinity),
}
// Infinity is allowed, although it is not an integer
export const NON_NEGATIVE_INTEGER: Condition = {
  text: 'an integer >= 0',
  accepts: (value) => isNumber(value) && value >= 0 && !(value % 1),
}
export const PORT: Condition = {
  text: 'a port from 0 to 65535',
  accepts: (value) => Number.isInteger(value) && isNumber(value) && value >= 0 && value < 2 ** 16,
}
export const POSITIVE_INTEGER: Condition = {
  text: 'an integer >= 1',
  accepts: (value) => isNumber(value) && value >= 1 && !(value % 1),
}
/** The rule of a number that is sent, stored or allocated, for which Infinity has no meaning. */
export const COUNT: Condition = {
  text: 'an integer from 1 to 2^53 - 1',
  accepts: (value) => Number.isSafeInteger(value) && (value as number) >= 1,
}
/** The rule of a path or a host: an empty one would be the working directory, or every address of this machine. */
export const NON_EMPTY: Condition = {
  text: 'a string that is not empty',
  accepts: (value) => typeof value === 'string' && value !== '',
}
export const STRINGS: Condition = {
  text: 'an array of strings',
  accepts: (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
}

/** The rule of an object whose content is its own properties. */
export const PLAIN_OBJECT: Condition = {
  text: 'a plain object',
  accepts: (value) => isPlainObject(value),
}

const SIGNAL: Condition = {
  text: 'an AbortSignal',
  accepts: (value) => typeof (value as Partial<AbortSignal> | null)?.throwIfAborted === 'function',
}

export const CALL_OPTIONS = { signal: SIGNAL, timeoutMs: TIME } as const

/** Checks options. @param caller named in errors @throws TypeError naming the invalid option and the allowed ones */
export function checkOptions<Options extends object>(
  options: Options,
  rules: RulesOf<Options>,
  caller = '',
): void {
  const subject = caller && `${caller}: `
  const names = Object.keys(rules).join(', ')
  // an instance of a user's class may hold options, as may a module; a Map, a list or an AbortSignal would count as none
  if (!/t (Obj|Mod)/.test(Object.prototype.toString.call(options)))
    throw new TypeError(`${subject}expected options { ${names} }, not ${describeType(options)}`)
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(rules, name))
      throw new TypeError(`${subject}unknown option ${name}; the options are ${names}`)
    if (value !== undefined) checkOption(subject + name, value, rules[name as keyof Options])
  }
}

/** Checks one value. @throws TypeError with its name */
export function checkOption(name: string, value: unknown, rule: Rule): void {
  if (meets(value, rule)) return
  if (typeof rule === 'string') throw new TypeError(`${name} must be ${rule}, not ${describeType(value)}`)
  const isList = !('accepts' in rule)
  const text = isList ? rule.map((word) => `'${word}'`).join(' or ') : rule.text
  // a value is shown only if it cannot be a secret
  const isWord = value === '' || ((isList || rule.isShown) && typeof value === 'string')
  throw new TypeError(
    `${name} must be ${text}, not ${isWord ? `'${value}'` : isNumber(value) ? value : describeType(value)}`,
  )
}

/** Checks a setting that may have been copied with the quotes or the line break around it. @throws TypeError */
export function checkEnds(name: string, text: string): void {
  const end = /^["'\s]|["'\s]$/.exec(text)?.[0]
  if (end)
    throw new TypeError(
      `${name} begins or ends with ${end.trim() ? 'a quote' : 'a space or a line break'}: remove it where it is set`,
    )
}

function meets(value: unknown, rule: Rule): boolean {
  if (typeof rule === 'string') return value !== null && rule.split(' or ').includes(typeof value)
  return 'accepts' in rule ? rule.accepts(value) : rule.includes(value as string)
}

/** Describes a value by its type or class only: it may be a token, or a misplaced argument. */
export const describeType = (value: unknown): string =>
  value == null
    ? String(value)
    : `a value of type ${(typeof value === 'object' && value.constructor?.name) || typeof value}`

/** Whether a value is an object whose content is its own properties: no array, Map, or instance of another class. */
export const isPlainObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Object.getPrototypeOf(Object.getPrototypeOf(value) ?? value)
