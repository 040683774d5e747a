import { stat } from 'node:fs/promises'
import { BackendRefusal } from './backend.ts'

/** The file of a database is missing, or empty. No back end makes it anew: that would look as if nothing had ever been in it. */
export class MissingFileError extends BackendRefusal {
  constructor() {
    super('the file of this database is missing or empty')
  }
}

/** Whether a database has a file with something in it; every one does from its creation on. */
export async function hasDatabaseFile(path: string): Promise<boolean> {
  return await stat(path).then(
    ({ size }) => size > 0,
    () => false,
  )
}
