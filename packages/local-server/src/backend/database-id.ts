import { randomUUID } from 'node:crypto'
import type { DatabaseId } from './backend.ts'

/** Characters of a UUID's text that hold its byte 5. */
const ENGINE_MARK = { from: 11, to: 13, value: '10' } as const

/** A fresh id; ids are never used twice, not even after a failed attempt. */
export function newDatabaseId(): DatabaseId {
  const id = randomUUID()
  // the service marks databases of another engine there, and its command line shows them so
  const isMarked = id.slice(ENGINE_MARK.from, ENGINE_MARK.to) === ENGINE_MARK.value
  return isMarked ? newDatabaseId() : (id as DatabaseId)
}
