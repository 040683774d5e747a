import { randomUUID } from 'node:crypto'
import type { DatabaseId } from './backend.ts'

/** Position of byte 5 in the text of a UUID. */
const ENGINE_MARK = { from: 11, to: 13, value: '10' } as const

/** Generates an id; ids are never reused, even after a failed creation. */
export function newDatabaseId(): DatabaseId {
  const id = randomUUID()
  // the service uses this byte to mark databases of another engine, and its CLI displays that
  const isMarked = id.slice(ENGINE_MARK.from, ENGINE_MARK.to) === ENGINE_MARK.value
  return isMarked ? newDatabaseId() : (id as DatabaseId)
}
