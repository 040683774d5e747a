import { statSync } from 'node:fs'
import { isMissing } from '../base/is-missing.ts'
import { BackendError } from './backend.ts'

/** Thrown if the file of a database is missing or empty. It is never recreated, because that would hide the data loss. */
export class MissingFileError extends BackendError {
  constructor() {
    super('the file of this database is missing or empty')
  }
}

/** Whether a database has a non-empty file. Every database has one from its creation on. @throws Error if it cannot be examined */
export const hasDatabaseFile = (path: string): boolean => getFileSize(path) > 0

/** Returns the size of a file in bytes; 0 if it does not exist. @throws Error if it cannot be examined */
export function getFileSize(path: string): number {
  try {
    // synchronously, because passing a call to another thread takes longer than the call itself
    return statSync(path, { throwIfNoEntry: false })?.size ?? 0
  } catch (error) {
    if (isMissing(error)) return 0
    throw error
  }
}
