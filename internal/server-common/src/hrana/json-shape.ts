/** Thrown if a request body violates the protocol. The message has the service's prefix. */
export class JsonShapeError extends Error {
  constructor(detail: string) {
    super(`Cannot deserialize client message from JSON: ${detail}`)
  }
}

export type JsonObject = Readonly<Record<string, unknown>>

/** Parses JSON text. @throws JsonShapeError with the parser's message */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    if (text.trim() === '') throw new JsonShapeError('EOF while parsing a value at line 1 column 0')
    const message = error instanceof Error ? error.message : String(error)
    const isControl = message.startsWith('Bad control character')
    throw new JsonShapeError(
      isControl ? 'control character (\\u0000-\\u001F) found while parsing a string' : message,
    )
  }
}

/** Describes a value of the wrong type, as the service does. */
export function describeJson(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'string') return `string ${JSON.stringify(value)}`
  if (typeof value === 'boolean') return `boolean \`${value}\``
  if (typeof value === 'number')
    return Number.isInteger(value) ? `integer \`${value}\`` : `floating point \`${value}\``
  return Array.isArray(value) ? 'sequence' : 'map'
}

function wrongType(value: unknown, expected: string): JsonShapeError {
  return new JsonShapeError(`invalid type: ${describeJson(value)}, expected ${expected}`)
}

export function asObject(value: unknown, expected: string): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrongType(value, expected)
  return value as JsonObject
}

export function asArray(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw wrongType(value, 'a sequence')
  return value
}

/** Returns a string. A lone surrogate has no UTF-8 form, and is rejected like any malformed escape. */
export function asString(value: unknown, expected = 'a string'): string {
  if (typeof value !== 'string') throw wrongType(value, expected)
  if (!value.isWellFormed()) throw new JsonShapeError('unexpected end of hex escape')
  return value
}

/** Returns a number. Also accepts a string, which the service's documentation allows although libsql-server rejects it. */
export function asNumber(value: unknown): number {
  const isText = typeof value === 'string' && /^[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i.test(value)
  if (typeof value !== 'number' && !isText) throw wrongType(value, 'f64')
  const number = Number(value)
  if (!Number.isFinite(number)) throw new JsonShapeError('number out of range')
  return number
}

export function asInteger(value: unknown, type: 'i32' | 'u32'): number {
  if (typeof value !== 'number') throw wrongType(value, type)
  if (!Number.isInteger(value)) throw wrongType(value, type)
  const [low, high] = type === 'i32' ? [-(2 ** 31), 2 ** 31 - 1] : [0, 2 ** 32 - 1]
  if (value < low || value > high) {
    throw new JsonShapeError(`invalid value: ${describeJson(value)}, expected ${type}`)
  }
  return value
}

export function requireField(object: JsonObject, name: string): unknown {
  if (!Object.hasOwn(object, name)) throw new JsonShapeError(`missing field \`${name}\``)
  return object[name]
}

/** Returns an optional member; null if it is absent or null. */
export function optionalField<T>(object: JsonObject, name: string, decode: (value: unknown) => T): T | null {
  if (!Object.hasOwn(object, name)) return null
  const value = object[name]
  return value === null ? null : decode(value)
}

/** Returns the `type` of a tagged object. @throws JsonShapeError unless it is one of `variants` */
export function readTag<Type extends string>(object: JsonObject, variants: readonly Type[]): Type {
  const type = asString(requireField(object, 'type'), 'variant identifier')
  const variant = variants.find((name) => name === type)
  if (variant !== undefined) return variant
  const list = variants.map((name) => `\`${name}\``).join(', ')
  throw new JsonShapeError(`unknown variant \`${type}\`, expected one of ${list}`)
}
