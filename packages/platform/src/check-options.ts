/** Rules for options, used in checks and errors: types of values, words in quotes, or a rule for numbers. */
export type Rules = Readonly<Record<string, string>>
export type RulesOf<T> = { readonly [K in keyof T]-?: string }

export const TIME = 'a positive number of milliseconds, or Infinity'
export const NON_NEGATIVE_INTEGER = 'an integer >= 0'
export const POSITIVE_INTEGER = 'an integer >= 1'
const NUMBER_RULES: Readonly<Record<string, (value: number) => boolean>> = {
  // timers are limited to 32 bits
  [TIME]: (value) => value > 0 && (value < 2 ** 31 || value === Infinity),
  // Infinity is allowed, although it is not an integer
  [NON_NEGATIVE_INTEGER]: (value) => value >= 0 && !(value % 1),
  [POSITIVE_INTEGER]: (value) => value >= 1 && !(value % 1),
}

/** Rules for the options of all calls. */
export const CALL_OPTIONS = { signal: 'object', timeoutMs: TIME }

/** Checks options. @throws TypeError naming the invalid option and the allowed ones */
export function checkOptions(options: object, rules: Rules): void {
  const names = Object.keys(rules).join(', ')
  if (typeof options !== 'object' || options === null)
    throw new TypeError(`expected options { ${names} }, not ${describeType(options)}`)
  for (const [name, value] of Object.entries(options)) {
    const rule = Object.hasOwn(rules, name) && rules[name]
    if (!rule) throw new TypeError(`unknown option ${name}; the options are ${names}`)
    if (value !== undefined && !meets(value, rule))
      throw new TypeError(`${name} must be ${rule}, not ${formatValue(value, rule)}`)
  }
}

function meets(value: unknown, rule: string): boolean {
  if (typeof value === 'number') return NUMBER_RULES[rule]?.(value) ?? false
  const kinds = [typeof value, typeof value === 'string' && `'${value}'`]
  return value !== null && rule.split(' or ').some((kind) => kinds.includes(kind))
}

/**
 * Formats a value for an error. Shows it only if it cannot be a secret: a word where a word is expected, a number where a number is
 * expected.
 */
function formatValue(value: unknown, rule: string): string {
  if (typeof value === 'string' && rule.startsWith("'")) return `'${value}'`
  return typeof value === 'number' && rule in NUMBER_RULES ? String(value) : describeType(value)
}

/** Describes a value only by its type, because it may be a token. */
export const describeType = (value: unknown): string =>
  value == null ? String(value) : `a value of type ${typeof value}`
