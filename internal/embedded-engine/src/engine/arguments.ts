import { type EngineValue, ResultError } from '@batonsql/server-common/hrana'
import { MAX_VALUE_BYTES } from './limits.ts'

export interface StatementArguments {
  readonly args: readonly EngineValue[]
  readonly namedArgs: readonly (readonly [name: string, value: EngineValue])[]
}

/**
 * Arranges arguments in the order of the parameters. Positional arguments are bound to `?` and `?NNN`; named ones to `:a`, `@a` and
 * `$a`, by the exact name first, then by the name without its prefix. With `isOptional` a missing argument is NULL.
 * @throws ResultError
 */
export function resolveArguments(
  names: readonly (string | null)[],
  { args, namedArgs }: StatementArguments,
  isOptional = false,
): EngineValue[] {
  const named = new Map(namedArgs)
  const count = args.length > 0 ? args.length : named.size
  if (count > names.length) {
    throw argumentsError(`too many parameters, expected ${names.length} found ${count}`)
  }
  const values: EngineValue[] = []
  for (const [index, name] of names.entries()) {
    const argument = findArgument(name, index, args, named)
    const value = argument === undefined && isOptional ? null : argument
    if (value === undefined) throw argumentsError(`value for parameter ${name ?? index + 1} not found`)
    if (isTooLarge(value)) throw argumentsError('string or blob too big')
    values.push(value)
  }
  return values
}

function findArgument(
  name: string | null,
  index: number,
  args: readonly EngineValue[],
  named: ReadonlyMap<string, EngineValue>,
): EngineValue | undefined {
  if (name === null || name.startsWith('?')) return args[index]
  return named.has(name) ? named.get(name) : named.get(name.slice(1))
}

/** Returns the name of a parameter without its prefix. */
export const removePrefix = (name: string): string => name.replace(/^[:@$]/, '')

function isTooLarge(value: EngineValue): boolean {
  if (typeof value === 'string')
    return value.length > MAX_VALUE_BYTES / 4 && Buffer.byteLength(value) > MAX_VALUE_BYTES
  return value instanceof Uint8Array && value.byteLength > MAX_VALUE_BYTES
}

function argumentsError(detail: string): ResultError {
  return new ResultError('ARGS_INVALID', `Arguments do not match SQL parameters: ${detail}`)
}
