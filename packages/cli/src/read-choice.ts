import { SWITCH } from './option-table.ts'
import { UsageError } from './usage-error.ts'

const ALTERNATIVES = new Intl.ListFormat('en-GB', { type: 'disjunction' })

/**
 * Reads a value of an option with a fixed set of values.
 * @param label how the error names the option, such as `baton: --backend`
 * @throws UsageError for any other value
 */
export function readChoice<Choice extends string>(
  label: string,
  choices: readonly Choice[],
  value: string,
): Choice {
  const match = choices.find((choice) => choice === value)
  if (match === undefined)
    throw new UsageError(`${label} must be ${ALTERNATIVES.format(choices)}, not ${value}`)
  return match
}

/** Reads an option that is `on` or `off`; undefined if it is absent. @throws UsageError for any other value */
export const readSwitch = (option: string, value: string | undefined): boolean | undefined =>
  value === undefined ? undefined : readChoice(`baton: --${option}`, SWITCH.choices, value) === 'on'
