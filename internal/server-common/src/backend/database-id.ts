import { randomUUID } from 'node:crypto'
import type { DatabaseId } from './backend.ts'

/** Generates an id. */
export function newDatabaseId(): DatabaseId {
  const id = randomUUID()
  // the hosted service marks databases of another engine with this value in the sixth byte, and its CLI displays the mark
  return id.slice(11, 13) === '10' ? newDatabaseId() : (id as DatabaseId)
}
