import { randomUUID } from 'node:crypto'
import type { DatabaseId } from './backend.ts'

/** Position of byte 5 in the text of a UUID, and the value that marks databases of another engine. */
const ENGINE_MARK = { from: 11, to: 13, value: '10' } as const

/** Generates an id; ids are never reused, even after a failed creation. */
export function newDatabaseId(): DatabaseId {
  const id = randomUUID()
  // the hosted service marks databases of another engine with this byte, and its CLI displays the mark
  const isMarked = id.slice(ENGINE_MARK.from, ENGINE_MARK.to) === ENGINE_MARK.value
  return isMarked ? newDatabaseId() : (id as DatabaseId)
}
