import { describeType } from '@batonsql/options'

/** The numbers of a vector, stored as 32-bit floats. */
export type InVector = Float32Array | readonly number[]

/**
 * Encodes a vector as the blob of `F32_BLOB` columns and `vector_…` functions.
 * @throws TypeError for anything but an array or a typed array; RangeError for numbers that are not finite as 32-bit floats
 */
export function encodeVector(values: InVector): Uint8Array {
  // a DataView has no length
  if (!Array.isArray(values) && !(ArrayBuffer.isView(values) && 'length' in values))
    throw new TypeError(`expected a vector as an array or a Float32Array, not ${describeType(values)}`)
  const bytes = new Uint8Array(values.length * 4)
  const view = new DataView(bytes.buffer)
  for (const [index, value] of values.entries()) {
    // a number of 64 bits may be too large for one of 32 bits; null, which is NaN in JSON, would become 0
    if (typeof value !== 'number' || !Number.isFinite(Math.fround(value)))
      throw new RangeError(`a vector cannot hold ${String(value)} (position ${index})`)
    view.setFloat32(index * 4, value, true)
  }
  return bytes
}

/** Decodes the blob of an `F32_BLOB` column. @throws RangeError for a text, or a length that is not a multiple of four */
export function decodeVector(blob: Uint8Array): Float32Array {
  const isBlob = ArrayBuffer.isView(blob)
  if (!isBlob || blob.byteLength % 4 !== 0)
    throw new RangeError(
      `not a vector of 32-bit numbers: ${isBlob ? `${blob.byteLength} bytes` : describeType(blob)}`,
    )
  const view = new DataView(blob.buffer, blob.byteOffset, blob.byteLength)
  return Float32Array.from({ length: blob.byteLength / 4 }, (_, index) => view.getFloat32(index * 4, true))
}
