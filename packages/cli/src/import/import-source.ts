import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { TemporaryDirectory } from '@batonsql/server-common/temporary-directory'
import { checkFile } from '../check-file.ts'
import type { CommandContext } from '../command-context.ts'
import { readText } from '../read-text.ts'
import { tap } from '../tap.ts'
import { type CsvRecord, readCsv } from './csv-records.ts'

/**
 * A CSV file that can be read several times. Standard input or a pipe, which can be read only once, is kept in a temporary file that
 * only this user can read.
 */
export class ImportSource {
  readonly #path: string
  /** What is read, for errors. */
  readonly name: string
  readonly #delimiter: string
  readonly #folder: TemporaryDirectory | null
  /** Identifies the content that was last read to its end; empty before that. */
  digest = ''

  private constructor(path: string, name: string, delimiter: string, folder: TemporaryDirectory | null) {
    this.#path = path
    this.name = name
    this.#delimiter = delimiter
    this.#folder = folder
  }

  /** Opens a file; reads standard input or a pipe to its end. @param file its path; `-` for standard input */
  static async open(
    file: string,
    delimiter: string,
    { input, signal }: CommandContext,
  ): Promise<ImportSource> {
    if (file !== '-') {
      await checkFile(file)
      if ((await stat(file)).isFile()) return new ImportSource(file, file, delimiter, null)
    }
    const stream = file === '-' ? input : createReadStream(file)
    const folder = await TemporaryDirectory.create('baton-import-')
    const path = join(folder.path, 'input.csv')
    try {
      await pipeline(stream, createWriteStream(path, { mode: 0o600 }), { signal })
    } catch (error) {
      await folder.remove()
      throw error
    }
    return new ImportSource(path, file === '-' ? 'the input' : file, delimiter, folder)
  }

  /** Reads the rows, and at the end the digest. */
  async *records(): AsyncGenerator<CsvRecord, void, undefined> {
    const hash = createHash('sha256')
    const bytes = createReadStream(this.#path)
    try {
      const hashed = tap(bytes, (part) => hash.update(part))
      yield* readCsv(readText(hashed, this.name), this.#delimiter)
      this.digest = hash.digest('hex')
    } finally {
      bytes.destroy()
    }
  }

  async close(): Promise<void> {
    await this.#folder?.remove()
  }
}
