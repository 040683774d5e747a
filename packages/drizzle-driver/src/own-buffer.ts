// Shared by all Drizzle versions.

/**
 * Copies a blob to a Buffer with memory of its own; without Buffer, as on some edge platforms, to a Uint8Array. Drizzle's decoders
 * call `Buffer.from()`, whose result is a view of memory that also holds other values.
 */
export function toOwnBuffer(value: unknown): Uint8Array {
  const { Buffer: NodeBuffer } = globalThis as { Buffer?: typeof Buffer }
  const source = typeof value === 'string' ? new TextEncoder().encode(value) : value
  if (typeof source !== 'object') throw new TypeError(`expected a blob, not a ${typeof value}`)
  // values that are not bytes come from Drizzle's cache
  const bytes = new Uint8Array(source instanceof Uint8Array ? source : Buffer.from(source as ArrayBuffer))
  return NodeBuffer ? NodeBuffer.from(bytes.buffer) : bytes
}
