import { stat } from 'node:fs/promises'
import { BackendRefusal } from './backend.ts'

/** The file of a database is missing or empty. It is never created again, because that would hide the loss of data. */
export class MissingFileError extends BackendRefusal {
  constructor() {
    super('the file of this database is missing or empty')
  }
}

/** Whether a database has a file with content; every database has one from its creation. */
export async function hasDatabaseFile(path: string): Promise<boolean> {
  return await stat(path).then(
    ({ size }) => size > 0,
    () => false,
  )
}
