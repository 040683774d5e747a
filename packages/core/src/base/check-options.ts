/**
 * Rules for option values, quoted in errors. A rule is a list of types or quoted values, joined by "or", or one of the number
 * rules below.
 */
export type OptionRules = Readonly<Record<string, string>>

export const TIME = 'a positive number of milliseconds, or Infinity'
export const NON_NEGATIVE_INTEGER = 'an integer >= 0'
export const POSITIVE_INTEGER = 'an integer >= 1'

/** The options of every call. */
export const CALL_OPTIONS = { signal: 'object', timeoutMs: TIME }
export const STATEMENT_OPTIONS = { ...CALL_OPTIONS, readOnly: 'boolean', rowMode: "'object' or 'array'" }
export const TRANSACTION_OPTIONS = {
  mode: "'immediate' or 'deferred' or 'readonly' or 'concurrent'",
  retry: 'number',
}
export const BATCH_OPTIONS = { ...STATEMENT_OPTIONS, mode: TRANSACTION_OPTIONS.mode }

/** Checks options. @throws TypeError naming the invalid value and the allowed ones */
export function checkOptions(options: object, rules: OptionRules): void {
  if (typeof options !== 'object' || options === null)
    throw new TypeError(`expected options { ${listNames(rules)} }, not ${describeType(options)}`)
  for (const [name, value] of Object.entries(options)) {
    const rule = Object.hasOwn(rules, name) && rules[name]
    if (!rule) throw new TypeError(`unknown option ${name}; the options are ${listNames(rules)}`)
    if (value !== undefined) checkOption(name, value, rule)
  }
}

export function checkOption(name: string, value: unknown, rule: string): void {
  if (meets(value, rule)) return
  // a value is shown only if it cannot be a secret: a number for a number, a string for a keyword
  const isNumber = typeof value === 'number' && rule.startsWith('a')
  const isWord = typeof value === 'string' && rule.startsWith("'")
  throw new TypeError(
    `${name} must be ${rule}, not ${isNumber ? value : isWord ? `'${value}'` : describeType(value)}`,
  )
}

/** Describes a value by its type only: it may be a token, or a misplaced argument. */
export const describeType = (value: unknown): string =>
  value == null ? String(value) : `a value of type ${typeof value}`

const listNames = (rules: OptionRules): string => Object.keys(rules).join(', ')

function meets(value: unknown, rule: string): boolean {
  const isNumber = typeof value === 'number'
  // timers are limited to 32 bits
  if (rule === TIME) return isNumber && value > 0 && (value < 2 ** 31 || value === Infinity)
  // Infinity is allowed, though it is not an integer
  if (rule === NON_NEGATIVE_INTEGER || rule === POSITIVE_INTEGER)
    return isNumber && value >= (rule === NON_NEGATIVE_INTEGER ? 0 : 1) && !(value % 1)
  if (typeof value === rule) return value !== null
  const kinds = [typeof value, typeof value === 'string' && `'${value}'`]
  return value !== null && rule.split(' or ').some((kind) => kinds.includes(kind))
}
