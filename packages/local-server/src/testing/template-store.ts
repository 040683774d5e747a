import { createHash } from 'node:crypto'
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { ENGINE_FILE } from '@batonsql/embedded-engine/engine-file'
import { PACKAGE_VERSION } from '../server/package-version.ts'
import { withFileLock } from './with-file-lock.ts'

const DAY_MS = 86_400_000
/** How long a template is kept after its last use. */
const MAX_AGE_MS = 14 * DAY_MS
/** Files that are removed when they are old. The directory may also contain others, and locks that another process may hold. */
const REMOVABLE_FILE = /^[0-9a-f]{64}\.db(?:\.unfinished)?$/

/**
 * Templates on disk, which all workers of a run and later runs use. A template is made once, and not visible before it is complete.
 * Its name is a hash of what it is made of and of the versions of this package and the engine. Old ones are removed.
 */
export class TemplateStore {
  readonly #directory: string

  /** @param directory created if necessary */
  constructor(directory: string) {
    this.#directory = resolve(directory)
  }

  /**
   * Returns the file of a template.
   * @param ingredients what the template is made of
   * @param make writes the template to a new file
   */
  async get(ingredients: readonly string[], make: (file: string) => Promise<void>): Promise<string> {
    const file = join(this.#directory, `${hash(ingredients)}.db`)
    if (recordUse(file)) return file
    this.#prepareDirectory()
    return await withFileLock(`${file}.lock`, async () => {
      // another process may have made it in the meantime
      if (recordUse(file)) return file
      this.#removeOldFiles()
      const unfinished = `${file}.unfinished`
      rmSync(unfinished, { force: true }) // of a process that was killed
      try {
        await make(unfinished)
        sync(unfinished)
        renameSync(unfinished, file)
      } finally {
        rmSync(unfinished, { force: true })
      }
      return file
    })
  }

  #prepareDirectory(): void {
    try {
      mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
      accessSync(this.#directory, constants.W_OK)
    } catch (cause) {
      throw new Error(
        `useDatabase: templates cannot be kept in ${this.#directory} (${(cause as Error).message}); choose another directory with the option templateDirectory, or BATON_TEMPLATES`,
        { cause },
      )
    }
  }

  #removeOldFiles(): void {
    for (const name of readdirSync(this.#directory).filter((entry) => REMOVABLE_FILE.test(entry))) {
      const path = join(this.#directory, name)
      const { atimeMs = Infinity, mtimeMs = 0 } = statSync(path, { throwIfNoEntry: false }) ?? {}
      if (Date.now() - Math.max(atimeMs, mtimeMs) > MAX_AGE_MS) rmSync(path, { force: true })
    }
  }
}

/**
 * Returns the directory for templates: `BATON_TEMPLATES`, or a folder in the nearest `node_modules` at or above the working
 * directory; null if there is none.
 */
export function findTemplateDirectory(): string | null {
  const chosen = process.env['BATON_TEMPLATES']
  if (chosen !== undefined && chosen !== '') return chosen
  for (let folder = process.cwd(); ; folder = dirname(folder)) {
    const modules = join(folder, 'node_modules')
    if (existsSync(modules)) return join(modules, '.cache', 'baton-templates')
    if (folder === dirname(folder)) return null
  }
}

function hash(ingredients: readonly string[]): string {
  const engine = createHash('sha256').update(readFileSync(ENGINE_FILE)).digest('hex')
  return createHash('sha256')
    .update(JSON.stringify([PACKAGE_VERSION, engine, ...ingredients]))
    .digest('hex')
}

/**
 * Postpones the removal of a template. Its time of modification stays, because it tells versions of a file apart.
 * @returns whether the template exists: another process may have just removed it
 */
function recordUse(file: string): boolean {
  try {
    const { atimeMs, mtime } = statSync(file)
    if (Date.now() - atimeMs > DAY_MS) utimesSync(file, new Date(), mtime)
  } catch {
    // it does not exist, or its directory belongs to another user or is read-only, as a cache of CI may be
  }
  return existsSync(file)
}

function sync(file: string): void {
  const descriptor = openSync(file, 'r+')
  try {
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}
