import { statSync } from 'node:fs'
import { BackendError } from './backend.ts'

/** Thrown if the file of a database is missing or empty. It is never recreated, because that would hide the data loss. */
export class MissingFileError extends BackendError {
  constructor() {
    super('the file of this database is missing or empty')
  }
}

/** Whether a database has a non-empty file. A database has one from its creation on. */
export function hasDatabaseFile(path: string): boolean {
  try {
    // synchronously, because passing a call to another thread takes longer than the call itself
    return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0
  } catch {
    return false // part of the path is a file
  }
}
