import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { sqliteModule } from './sqlite-module.ts'

/** An empty file that is locked. It stays: another one of its name would be another lock. */
const LOCK_NAME = 'baton.lock.db'
/** Who has the lock, to be read by people. */
const OWNER_NAME = 'baton.lock'
/** How long those wait for each other that begin at the same time. */
const CONTENTION_MS = 200
const WATCH_MS = 1_000
const SQLITE_BUSY = 5

interface Owner {
  readonly pid: number
  readonly host: string
}

/**
 * Keeps two servers off one data directory: the engines would not complain and lose data. It is the lock that every SQLite
 * takes, of the operating system: it holds for processes of other containers that have the directory, and ends with its
 * process, however that ends.
 */
export class DirectoryLock implements AsyncDisposable {
  readonly #directory: string
  readonly #database: DatabaseSync
  readonly #file: string
  readonly #watch: NodeJS.Timeout
  #isLost = false

  private constructor(directory: string, database: DatabaseSync, file: string) {
    this.#directory = directory
    this.#database = database
    this.#file = file
    this.#watch = setInterval(() => void this.#look(), WATCH_MS).unref()
  }

  /** Rejects when another server has the directory, or when it cannot be written. */
  static async acquire(directory: string): Promise<DirectoryLock> {
    await prepareDirectory(directory)
    const path = join(directory, LOCK_NAME)
    const sqlite = sqliteModule()
    if (!sqlite)
      throw new Error(`the directory ${directory} cannot be locked: this runtime has no node:sqlite`)
    const database = new sqlite.DatabaseSync(path, { timeout: CONTENTION_MS })
    try {
      // nothing is ever written, and so nothing has to be taken back
      database.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
      const owner: Owner = { pid: process.pid, host: hostname() }
      await writeFile(join(directory, OWNER_NAME), JSON.stringify(owner))
      return new DirectoryLock(directory, database, await fileAt(path))
    } catch (error) {
      database.close()
      if ((error as { errcode?: number }).errcode !== SQLITE_BUSY)
        throw new Error(`the directory ${directory} cannot be locked: ${String(error)}`, { cause: error })
      throw new Error(`the directory ${directory} is in use by ${await readOwner(directory)}`, {
        cause: error,
      })
    }
  }

  /** Whether the locked file is gone, so that another server may have the directory, too. */
  get isLost(): boolean {
    return this.#isLost
  }

  async release(): Promise<void> {
    clearInterval(this.#watch)
    if (!this.#database.isOpen) return
    if (!this.#isLost) await rm(join(this.#directory, OWNER_NAME), { force: true })
    this.#database.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  async #look(): Promise<void> {
    const found = await fileAt(join(this.#directory, LOCK_NAME))
    if (found === this.#file || this.#isLost || !this.#database.isOpen) return
    this.#isLost = true
    console.error(`the lock of the directory ${this.#directory} was removed: nothing is answered any more`)
  }
}

/** Names the file that is at a path now. */
async function fileAt(path: string): Promise<string> {
  const found = await stat(path, { bigint: true }).catch(() => null)
  return found === null ? 'none' : `${found.dev} ${found.ino}`
}

async function readOwner(directory: string): Promise<string> {
  try {
    const { pid, host } = JSON.parse(await readFile(join(directory, OWNER_NAME), 'utf8')) as Partial<Owner>
    const where = host === undefined || host === hostname() ? '' : ` of ${host}`
    if (typeof pid === 'number') return `process ${pid}${where}`
  } catch {
    // it is being written
  }
  return 'another process'
}

async function prepareDirectory(directory: string): Promise<void> {
  const probe = join(directory, `${OWNER_NAME}.${randomUUID()}.new`)
  try {
    await makeDirectory(resolve(directory))
    await writeFile(probe, '')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`the directory ${directory} cannot be written: ${reason}`, { cause: error })
  } finally {
    await rm(probe, { force: true }).catch(() => {})
  }
}

/** As `mkdir` with `recursive`, which goes round in circles for ever where the system says that a parent is missing. */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    const parent = dirname(path)
    if (code !== 'ENOENT' || parent === path || (await exists(parent))) throw error
    await makeDirectory(parent)
    await makeDirectory(path)
  }
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  )
}
