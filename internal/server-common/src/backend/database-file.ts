import { stat } from 'node:fs/promises'
import { BackendError } from './backend.ts'

/** Thrown if the file of a database is missing or empty. It is never recreated, because that would hide the data loss. */
export class MissingFileError extends BackendError {
  constructor() {
    super('the file of this database is missing or empty')
  }
}

/** Whether a database has a non-empty file. A database has one from its creation on. */
export async function hasDatabaseFile(path: string): Promise<boolean> {
  return await stat(path).then(
    ({ size }) => size > 0,
    () => false,
  )
}
