import { describeType } from '@batonsql/options'
import { decodeBase64, encodeBase64 } from '#base64'
import { ProtocolError } from '../base/errors.ts'
import type { WireValue } from '../base/wire.ts'

/** A value as SQLite returns it. Integers follow the client's `intMode`. */
export type Value = null | number | bigint | string | Uint8Array

/** A value that a statement accepts. Booleans become 1 and 0; buffers and their views become blobs. */
export type InValue = null | number | bigint | boolean | string | ArrayBuffer | ArrayBufferView | RealValue

/** A number that is sent as REAL, even if it is whole. Plain whole numbers are sent as INTEGER. */
export class RealValue {
  readonly value: number

  constructor(value: number) {
    this.value = value
  }
}

export const INT_MODES = ['auto', 'number', 'bigint', 'string'] as const

/**
 * How 64-bit integers are returned: `auto` as number if it is exact and as bigint otherwise, `number` with a RangeError if it
 * is not exact, or always as `bigint` or `string`.
 */
export type IntMode = (typeof INT_MODES)[number]

const INT64_LIMIT = 2n ** 63n

/**
 * Encodes a value as the server's JSON. Does not use JSON.stringify, which turns -0 into 0.
 * @param name the parameter's name in errors, such as `parameter 2` or `parameter :id`
 */
export function encodeValue(value: InValue, name: string): string {
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed())
        throw new RangeError(`${name}: the string has a lone surrogate; use toWellFormed() or a blob`)
      return `{"type":"text","value":${JSON.stringify(value)}}`
    case 'number':
      if (!Number.isSafeInteger(value) || Object.is(value, -0)) return encodeReal(value, name)
      return encodeInteger(value)
    case 'bigint':
      if (value >= INT64_LIMIT || value < -INT64_LIMIT)
        throw new RangeError(`${name}: ${value} does not fit into 64 bits; use text`)
      return encodeInteger(value)
    case 'boolean':
      return encodeInteger(Number(value))
    default:
      if (value === null) return '{"type":"null"}'
      if (value instanceof RealValue) return encodeReal(value.value, name)
      if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return encodeBlob(value, name)
      throw new TypeError(`${name}: ${describe(value)}`)
  }
}

const encodeInteger = (value: number | bigint): string => `{"type":"integer","value":"${value}"}`

function encodeReal(value: number, name: string): string {
  if (!Number.isFinite(value)) throw new RangeError(`${name}: ${value} cannot be stored; use null or text`)
  // as text: JSON.stringify(-0) is `0`, without its sign
  return `{"type":"float","value":${Object.is(value, -0) ? '-0.0' : value}}`
}

function describe(value: unknown): string {
  if (value === undefined) return 'undefined cannot be stored; use null'
  if (value instanceof Date)
    return 'a Date cannot be stored; use toISOString() for text, or getTime() for an integer'
  return `${describeType(value)} cannot be stored; use JSON.stringify() or a field of it`
}

function encodeBlob(value: ArrayBuffer | ArrayBufferView, name: string): string {
  let bytes: Uint8Array
  try {
    bytes =
      value instanceof ArrayBuffer
        ? new Uint8Array(value)
        : new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  } catch {
    throw new TypeError(`${name}: the buffer is detached`)
  }
  return `{"type":"blob","base64":"${encodeBase64(bytes)}"}`
}

/** Decodes one cell. @param column its name in errors */
export function decodeValue(value: WireValue, intMode: IntMode, column: string): Value {
  switch (value.type) {
    case 'text':
      return value.value
    case 'integer':
      return decodeInteger(value.value, intMode, column)
    case 'null':
      return null
    case 'float':
      return decodeFloat(value.value)
    case 'blob':
      return decodeBase64(value.base64)
    default:
      throw new ProtocolError(`column ${column}: unknown value ${JSON.stringify(value)}`)
  }
}

/** Decodes a float. Servers send null for values that JSON lacks (±Infinity, NaN); some send numbers as text. */
export const decodeFloat = (value: number | string | null): number =>
  value === null ? Number.NaN : Number(value)

export function decodeInteger(digits: string, intMode: IntMode, column: string): number | bigint | string {
  if (intMode === 'bigint') return BigInt(digits)
  if (intMode === 'string') return digits
  const number = Number(digits)
  if (Number.isSafeInteger(number)) return number
  if (intMode === 'number')
    throw new RangeError(
      `column ${column}: ${digits} is not exact as a number; use intMode 'auto' or 'bigint'`,
    )
  return BigInt(digits)
}
