/**
 * What options take, for the check and for the error: types of values, or values in quotes, with "or" between them, or one of
 * the rules for numbers.
 */
export type OptionRules = Readonly<Record<string, string>>

export const TIME = 'a positive number of milliseconds, or Infinity'
export const FROM_0 = 'an integer from 0 up'
export const FROM_1 = 'an integer from 1 up'

/** What each call takes. */
export const CALL_OPTIONS = { signal: 'object', timeoutMs: TIME }
export const STATEMENT_OPTIONS = { ...CALL_OPTIONS, readOnly: 'boolean', rowMode: "'object' or 'array'" }
export const TRANSACTION_OPTIONS = { mode: "'immediate' or 'deferred' or 'readonly'", retry: 'number' }
export const BATCH_OPTIONS = { ...STATEMENT_OPTIONS, mode: TRANSACTION_OPTIONS.mode }

/** @throws TypeError naming what was given and what can be given */
export function checkOptions(options: object, rules: OptionRules): void {
  if (typeof options !== 'object' || options === null)
    throw new TypeError(`expected options { ${namesOf(rules)} }, not ${kindOf(options)}`)
  for (const [name, value] of Object.entries(options)) {
    const rule = Object.hasOwn(rules, name) && rules[name]
    if (!rule) throw new TypeError(`unknown option ${name}; the options are ${namesOf(rules)}`)
    if (value !== undefined) checkOption(name, value, rule)
  }
}

export function checkOption(name: string, value: unknown, rule: string): void {
  if (meets(value, rule)) return
  // shown where it can be no secret: a text in place of a word, a number in place of a better one
  const isNumber = typeof value === 'number' && rule.startsWith('a')
  const isWord = typeof value === 'string' && rule.startsWith("'")
  throw new TypeError(
    `${name} must be ${rule}, not ${isNumber ? value : isWord ? `'${value}'` : kindOf(value)}`,
  )
}

/** A value by its type alone: it may be a token, or an argument in the wrong place. */
export const kindOf = (value: unknown): string =>
  value == null ? String(value) : `a value of type ${typeof value}`

const namesOf = (rules: OptionRules): string => Object.keys(rules).join(', ')

function meets(value: unknown, rule: string): boolean {
  const isNumber = typeof value === 'number'
  // timers count in 32 bits
  if (rule === TIME) return isNumber && value > 0 && (value < 2 ** 31 || value === Infinity)
  // Infinity is allowed, though it is not an integer
  if (rule === FROM_0 || rule === FROM_1)
    return isNumber && value >= (rule === FROM_0 ? 0 : 1) && !(value % 1)
  if (typeof value === rule) return value !== null
  const kinds = [typeof value, typeof value === 'string' && `'${value}'`]
  return value !== null && rule.split(' or ').some((each) => kinds.includes(each))
}
