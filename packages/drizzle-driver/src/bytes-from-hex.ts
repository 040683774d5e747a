import { type SQL, type SQLChunk, sql } from 'drizzle-orm'

// Shared by all Drizzle versions.

/** Formats a blob for JSON, which cannot hold one. SQLite's `hex(NULL)` is the text of an empty blob. */
export const hexInJson = (blob: SQLChunk): SQL => sql`case when ${blob} is not null then hex(${blob}) end`

export const bytesFromHex = (hex: string): Uint8Array =>
  Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16))
