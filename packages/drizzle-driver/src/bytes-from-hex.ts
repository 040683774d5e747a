// Shared by all Drizzle versions.

export const bytesFromHex = (hex: string): Uint8Array =>
  Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16))
